// device_call.c - runs a call of the device API: finds it in the table, checks, traces, executes and counts
// it.

#include "bm1690/chip.h"

#include <stdio.h>

_Thread_local struct core *core_here;

// Declares the functions of all rows, repeatedly where rows share one.
#define COMMAND(NAME, ENGINE, RETURNS, PARAMETERS, FUNCTION, OPERATION, PASSES) run_function run_##FUNCTION;
#include "bm1690/commands.def"

static const struct {
    run_function *run;
    int operation;
} runs[] = {
#define COMMAND(NAME, ENGINE, RETURNS, PARAMETERS, FUNCTION, OPERATION, PASSES) {run_##FUNCTION, OPERATION},
#include "bm1690/commands.def"
};

// Values ----------------------------------------------------------------------------------------------------

static int find_parameter(const struct bm1690_command *c, const char *name) {
    for (int i = 0; i < BM1690_PARAMETERS && c->parameter[i].name; i++)
        if (!strcmp(c->parameter[i].name, name))
            return i;
    return -1;
}

bool command_has(const struct command *command, const char *name) {
    return find_parameter(command->row, name) >= 0;
}

const union bm1690_value *command_value(const struct command *command, const char *name) {
    static const union bm1690_value none;
    int at = find_parameter(command->row, name);
    return at < 0 ? &none : &command->value[at];
}

// Errors ----------------------------------------------------------------------------------------------------

bool command_refuse(struct command *command, const char *parameter, const char *format, ...) {
    struct text message = {0};
    va_list list;
    va_start(list, format);
    text_add_list(&message, format, list);
    va_end(list);
    command->core->failed = true;
    error_set(ZL_ERROR_DEVICE, "bm1690: core %d, command %llu: %s: %s%s%s", command->core->index,
              (unsigned long long)(command->core->report.commands[BM1690_TIU] +
                                   command->core->report.commands[BM1690_GDMA] +
                                   command->core->report.commands[BM1690_HAU]),
              command->row->name, parameter, *parameter ? " " : "", message.data ? message.data : "");
    text_free(&message);
    return false;
}

// Trace -----------------------------------------------------------------------------------------------------

enum print {
    PRINT_NONE,
    PRINT_HEX,
    PRINT_DECIMAL,
    PRINT_FLOAT,
    PRINT_DTYPE,
    PRINT_DIM4,
    PRINT_DIM2,
    PRINT_VARIABLE
};
static const enum print prints[] = {
#define KIND(NAME, TYPE, MEMBER, PRINT) [BM1690_KIND_##NAME] = PRINT_##PRINT,
    BM1690_KINDS(KIND)
#undef KIND
};

static void add_numbers(struct text *out, const int32_t *number, int count) {
    if (!number) {
        text_add(out, "NULL");
        return;
    }
    for (int i = 0; i < count; i++)
        text_add(out, "%s%d", i ? "," : "{", number[i]);
    text_add(out, "}");
}

static void add_value(struct text *out, enum print print, const union bm1690_value *v) {
    const struct variable *variable = v->p;
    switch (print) {
    case PRINT_NONE: text_add(out, "-"); break;
    case PRINT_HEX: text_add(out, "0x%llx", (unsigned long long)v->u); break;
    case PRINT_DECIMAL: text_add(out, "%lld", (long long)v->i); break;
    case PRINT_FLOAT: text_add(out, "%.9g", (double)v->f); break;
    case PRINT_DTYPE: text_add(out, "%s", bm1690_dtype_name((enum bm1690_dtype)v->i)); break;
    case PRINT_DIM4: add_numbers(out, v->p, 4); break;
    case PRINT_DIM2: add_numbers(out, v->p, 2); break;
    case PRINT_VARIABLE:
        text_add(out, "%s 0x%x",
                 !variable                           ? "NULL"
                 : variable->type == VARIABLE_SCALAR ? "scalar"
                                                     : "tensor",
                 variable ? variable->word : 0);
        break;
    }
}

static void trace(const struct command *command) {
    struct text *out = &command->core->report.trace;
    const struct bm1690_command *c = command->row;
    text_add(out, "%d %s", command->core->index, c->name);
    for (int i = 0; i < BM1690_PARAMETERS && c->parameter[i].name; i++) {
        text_add(out, " %s=", c->parameter[i].name);
        add_value(out, prints[c->parameter[i].kind], &command->value[i]);
    }
    text_add(out, "\n");
}

// Running ---------------------------------------------------------------------------------------------------

// Runs a command of an engine. After an error, nothing is executed.
static void run_engine(struct command *command) {
    struct core *core = command->core;
    if (core->failed)
        return;
    core->report.commands[command->row->engine]++;
    if (core->traces)
        trace(command);
    if (operand_check_values(command) && operand_check_all(command) &&
        runs[command->row - bm1690_commands].run(command)) {
        if (!core->counts_only)
            operand_mark_written(command);
        model_count(command);
    } else {
        core->failed = true;
    }
}

// Runs a query or another control function. The control program continues after an error, so its queries are
// still answered, even with wrong values.
static void run_control(struct command *command) {
    if (!command->core->failed)
        operand_check_values(command);
    runs[command->row - bm1690_commands].run(command);
}

union bm1690_value command_issue(int index, const union bm1690_value *value) {
    struct command command;
    command.core = core_here;
    command.row = &bm1690_commands[index];
    command.value = value;
    command.operation = runs[index].operation;
    command.views = 0;
    command.result = (union bm1690_value){0};
    command.cycles = 0;
    if (!command.core)
        return command.result;
    if (command.row->engine == BM1690_CONTROL)
        run_control(&command);
    else
        run_engine(&command);
    return command.result;
}
