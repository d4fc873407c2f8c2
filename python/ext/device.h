// device.h - devices as device.c and stream.c share them.

#ifndef DEVICE_H
#define DEVICE_H

#include "ext.h"

enum device_type { DEVICE_CPU, DEVICE_GPU, DEVICE_TYPES };

struct device {
    enum device_type type;
    int unit; // of several of one type
};

PyObject *device_object(struct device d); // a new Device
bool device_is(PyObject *o);              // whether it is a Device or a DeviceType
// A Device or DeviceType; else TypeError, which names the function.
bool device_read(const char *function, PyObject *o, struct device *out);
// What the library calls the device, written to text, or ValueError if it is not here.
enum { DEVICE_NAME = 32 };
const char *device_name(const char *function, struct device d, char text[static DEVICE_NAME]);
bool device_has(struct device d, zl_stream s); // whether s is a stream of d

struct device device_default(void);
// Makes a device that is here the default; returns the number of the one before.
int device_set_default(struct device d);
// The number of the default device; 0: none was set, and the library's counts. Unlike device_default, neither
// opens a driver.
int device_default_number(void);
void device_set_default_number(int number);

// Whether a stream= argument asks for the CPU; false also where it is none.
bool stream_is_cpu(PyObject *o);
bool stream_add(PyObject *core); // stream.c: streams and what is done with them
// The default stream of this thread becomes one of the default device, which any thread may have set.
bool stream_follow_device(void);

#endif
