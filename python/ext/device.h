// device.h - devices, shared by device.c and stream.c.

#ifndef DEVICE_H
#define DEVICE_H

#include "ext.h"

enum device_type { DEVICE_CPU, DEVICE_GPU, DEVICE_TYPES };

struct device {
    enum device_type type;
    int unit; // of the units of this type
};

PyObject *device_object(struct device d); // returns a new Device
bool device_is(PyObject *o);              // returns whether it is a Device or a DeviceType
// Reads a Device or DeviceType; for others, raises TypeError, which names the function.
bool device_read(const char *function, PyObject *o, struct device *out);
// Returns the library's name of the device, in `text`, or NULL with a ValueError if this machine does not
// have it.
enum { DEVICE_NAME = 32 };
const char *device_name(const char *function, struct device d, char text[static DEVICE_NAME]);
bool device_has(struct device d, zl_stream s); // returns whether s is a stream of d

struct device device_default(void);
// Makes an available device the default. Returns the number of the previous one.
int device_set_default(struct device d);
// Returns the number of the default device; 0: none was set, and the library's applies. Unlike
// device_default, this and the next function open no driver.
int device_default_number(void);
void device_set_default_number(int number);

// Returns whether a stream= argument names the CPU; false also if it is not a valid one.
bool stream_is_cpu(PyObject *o);
bool stream_add(PyObject *core); // adds streams and their functions
// Makes this thread's default stream one of the default device, which any thread may have changed.
bool stream_follow_device(void);

#endif
