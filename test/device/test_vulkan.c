// test_vulkan.c - the Vulkan device below its kernels: command buffers, memory, copies, the order of commands
// and their cost.

#define TEST_LACKS test_lacks_vulkan

#include "on_devices.h"
#include "vulkan_add.h"

#include "device/vulkan/vulkan.h"

#include <pthread.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Records ---------------------------------------------------------------------------------------------------

#if __has_include(<vulkan/vulkan.h>)
#include <vulkan/vulkan.h>

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #ours)
#define SAME_PLACE(ours, a, theirs, b) \
    _Static_assert(offsetof(struct ours, a) == offsetof(theirs, b), #ours "." #a)
#define SAME_FLAG(ours, flag_at, theirs, b) \
    _Static_assert(offsetof(struct ours, flag) + 4 * (flag_at) == offsetof(theirs, b), #flag_at)

SAME_SIZE(vk_limits, VkPhysicalDeviceLimits);
SAME_PLACE(vk_limits, storage_range, VkPhysicalDeviceLimits, maxStorageBufferRange);
SAME_PLACE(vk_limits, push_bytes, VkPhysicalDeviceLimits, maxPushConstantsSize);
SAME_PLACE(vk_limits, stage_buffers, VkPhysicalDeviceLimits, maxPerStageDescriptorStorageBuffers);
SAME_PLACE(vk_limits, shared_bytes, VkPhysicalDeviceLimits, maxComputeSharedMemorySize);
SAME_PLACE(vk_limits, groups, VkPhysicalDeviceLimits, maxComputeWorkGroupCount);
SAME_PLACE(vk_limits, threads, VkPhysicalDeviceLimits, maxComputeWorkGroupInvocations);
SAME_PLACE(vk_limits, threads_along, VkPhysicalDeviceLimits, maxComputeWorkGroupSize);
SAME_PLACE(vk_limits, storage_alignment, VkPhysicalDeviceLimits, minStorageBufferOffsetAlignment);
SAME_PLACE(vk_limits, timestamp_ns, VkPhysicalDeviceLimits, timestampPeriod);
SAME_SIZE(vk_properties, VkPhysicalDeviceProperties2);
SAME_PLACE(vk_properties, name, VkPhysicalDeviceProperties2, properties.deviceName);
SAME_PLACE(vk_properties, cache_id, VkPhysicalDeviceProperties2, properties.pipelineCacheUUID);
SAME_PLACE(vk_properties, limits, VkPhysicalDeviceProperties2, properties.limits);
SAME_SIZE(vk_properties11, VkPhysicalDeviceVulkan11Properties);
SAME_PLACE(vk_properties11, subgroup_size, VkPhysicalDeviceVulkan11Properties, subgroupSize);
SAME_PLACE(vk_properties11, allocation_bytes, VkPhysicalDeviceVulkan11Properties, maxMemoryAllocationSize);
SAME_SIZE(vk_properties12, VkPhysicalDeviceVulkan12Properties);
SAME_PLACE(vk_properties12, preserves_denormals, VkPhysicalDeviceVulkan12Properties,
           shaderDenormPreserveFloat16);
SAME_PLACE(vk_properties12, rounds_even, VkPhysicalDeviceVulkan12Properties, shaderRoundingModeRTEFloat16);
SAME_SIZE(vk_subgroup_sizes, VkPhysicalDeviceSubgroupSizeControlProperties);
SAME_SIZE(vk_features, VkPhysicalDeviceFeatures2);
SAME_FLAG(vk_features, VK_FLOAT64, VkPhysicalDeviceFeatures2, features.shaderFloat64);
SAME_FLAG(vk_features, VK_INT64, VkPhysicalDeviceFeatures2, features.shaderInt64);
SAME_FLAG(vk_features, VK_INT16, VkPhysicalDeviceFeatures2, features.shaderInt16);
SAME_SIZE(vk_features11, VkPhysicalDeviceVulkan11Features);
SAME_FLAG(vk_features11, VK_PUSH16, VkPhysicalDeviceVulkan11Features, storagePushConstant16);
SAME_FLAG(vk_features11, VK_POINTERS, VkPhysicalDeviceVulkan11Features, variablePointersStorageBuffer);
SAME_SIZE(vk_features12, VkPhysicalDeviceVulkan12Features);
SAME_FLAG(vk_features12, VK_STORAGE8, VkPhysicalDeviceVulkan12Features, storageBuffer8BitAccess);
SAME_FLAG(vk_features12, VK_SHARED_ATOMICS64, VkPhysicalDeviceVulkan12Features, shaderSharedInt64Atomics);
SAME_FLAG(vk_features12, VK_INT8, VkPhysicalDeviceVulkan12Features, shaderInt8);
SAME_FLAG(vk_features12, VK_SCALAR_LAYOUT, VkPhysicalDeviceVulkan12Features, scalarBlockLayout);
SAME_FLAG(vk_features12, VK_SUBGROUP_TYPES, VkPhysicalDeviceVulkan12Features, shaderSubgroupExtendedTypes);
SAME_FLAG(vk_features12, VK_TIMELINE, VkPhysicalDeviceVulkan12Features, timelineSemaphore);
SAME_FLAG(vk_features12, VK_MEMORY_MODEL, VkPhysicalDeviceVulkan12Features, vulkanMemoryModel);
SAME_SIZE(vk_features13, VkPhysicalDeviceVulkan13Features);
SAME_FLAG(vk_features13, VK_FULL_SUBGROUPS, VkPhysicalDeviceVulkan13Features, computeFullSubgroups);
SAME_FLAG(vk_features13, VK_MAINTENANCE4, VkPhysicalDeviceVulkan13Features, maintenance4);
SAME_SIZE(vk_shared_layout, VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR);
SAME_SIZE(vk_extension, VkExtensionProperties);
SAME_SIZE(vk_queue_family, VkQueueFamilyProperties);
SAME_SIZE(vk_memory_types, VkPhysicalDeviceMemoryProperties);
SAME_SIZE(vk_application, VkApplicationInfo);
SAME_SIZE(vk_make_instance, VkInstanceCreateInfo);
SAME_SIZE(vk_make_queue, VkDeviceQueueCreateInfo);
SAME_SIZE(vk_make_device, VkDeviceCreateInfo);
SAME_SIZE(vk_make_buffer, VkBufferCreateInfo);
SAME_SIZE(vk_make_memory, VkMemoryAllocateInfo);
SAME_SIZE(vk_needs, VkMemoryRequirements);
SAME_SIZE(vk_semaphore_type, VkSemaphoreTypeCreateInfo);
SAME_SIZE(vk_make_plain, VkSemaphoreCreateInfo);
SAME_SIZE(vk_make_plain, VkCommandPoolCreateInfo);
SAME_SIZE(vk_semaphore_wait, VkSemaphoreWaitInfo);
SAME_SIZE(vk_make_commands, VkCommandBufferAllocateInfo);
SAME_SIZE(vk_begin, VkCommandBufferBeginInfo);
SAME_SIZE(vk_timeline_submit, VkTimelineSemaphoreSubmitInfo);
SAME_SIZE(vk_submit, VkSubmitInfo);
SAME_SIZE(vk_barrier, VkMemoryBarrier);
SAME_SIZE(vk_copy, VkBufferCopy);
SAME_SIZE(vk_range, VkDescriptorBufferInfo);
SAME_SIZE(vk_memory_flags, VkMemoryAllocateFlagsInfo);
SAME_SIZE(vk_address, VkBufferDeviceAddressInfo);
SAME_SIZE(vk_set_write, VkWriteDescriptorSet);
SAME_SIZE(vk_make_shader, VkShaderModuleCreateInfo);
SAME_SIZE(vk_binding, VkDescriptorSetLayoutBinding);
SAME_SIZE(vk_make_set_layout, VkDescriptorSetLayoutCreateInfo);
SAME_SIZE(vk_push_range, VkPushConstantRange);
SAME_SIZE(vk_make_pipeline_layout, VkPipelineLayoutCreateInfo);
SAME_SIZE(vk_subgroup_size, VkPipelineShaderStageRequiredSubgroupSizeCreateInfo);
SAME_SIZE(vk_stage, VkPipelineShaderStageCreateInfo);
SAME_SIZE(vk_make_compute, VkComputePipelineCreateInfo);
SAME_SIZE(vk_make_cache, VkPipelineCacheCreateInfo);
SAME_SIZE(vk_pool_size, VkDescriptorPoolSize);
SAME_SIZE(vk_make_set_pool, VkDescriptorPoolCreateInfo);
SAME_SIZE(vk_make_sets, VkDescriptorSetAllocateInfo);
SAME_SIZE(vk_make_queries, VkQueryPoolCreateInfo);
_Static_assert((int)VK_STAGE_COMPUTE == (int)VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT &&
                   (int)VK_STAGE_COPY == (int)VK_PIPELINE_STAGE_TRANSFER_BIT &&
                   (int)VK_STAGE_END == (int)VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT &&
                   (int)VK_STAGE_HOST == (int)VK_PIPELINE_STAGE_HOST_BIT &&
                   (int)VK_ACCESS_HOST_READ == (int)VK_ACCESS_HOST_READ_BIT &&
                   (int)VK_ACCESS_READ == (int)VK_ACCESS_MEMORY_READ_BIT &&
                   (int)VK_ACCESS_WRITE == (int)VK_ACCESS_MEMORY_WRITE_BIT,
               "stages and accesses");
#endif

TEST(vulkan_describes_itself) {
    const struct vulkan_device *d = vulkan_chip(0);
    REQUIRE(d);
    CHECK(d->name[0] && d->memory > 0 && d->unit.group.most_threads >= 128 &&
          d->unit.group.most_shared >= 16384);
    CHECK(d->unit.spirv.push_bytes >= 128);
    CHECK_ERROR(ZL_ERROR_DEVICE, vulkan_device(vulkan_open(NULL)));
    CHECK_ERROR(ZL_ERROR_DEVICE, vulkan_device(-1));
}

// Memory ----------------------------------------------------------------------------------------------------

TEST(vulkan_memory_comes_from_blocks) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d);
    enum { PARTS = 100 };
    char *part[PARTS];
    int64_t before = vulkan_blocks_made(0);
    for (int i = 0; i < PARTS; i++)
        REQUIRE((part[i] = vulkan_alloc(d, (size_t)i * 100)));
    CHECK(vulkan_blocks_made(0) - before <= 1);
    for (int i = 0; i < PARTS; i++) {
        CHECK_EQ_INT((intptr_t)part[i] % VULKAN_ALIGNMENT, 0);
        CHECK(!i || vulkan_place(d, part[i]).offset != vulkan_place(d, part[i - 1]).offset);
    }
    for (int i = 0; i < PARTS; i += 2) // every other one, then the rest: gaps are joined
        vulkan_free(d, part[i]);
    void *again = vulkan_alloc(d, 100);
    CHECK(again == part[0]);
    vulkan_free(d, again);
    for (int i = 1; i < PARTS; i += 2)
        vulkan_free(d, part[i]);
    void *whole = vulkan_alloc(d, 30 << 20);
    CHECK(vulkan_place(d, whole).offset == vulkan_place(d, part[0]).offset);
    vulkan_free(d, whole);
    CHECK_ERROR(ZL_ERROR_MEMORY, vulkan_alloc(d, SIZE_MAX / 2));
}

TEST(vulkan_large_memory_has_its_own_block) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d);
    int64_t before = vulkan_blocks_made(0);
    void *large = vulkan_alloc(d, 200 << 20);
    REQUIRE(large);
    CHECK_EQ_INT(vulkan_blocks_made(0) - before, 1);
    CHECK_EQ_INT((int64_t)vulkan_place(d, large).offset, 0);
    vulkan_free(d, large);
}

// Launches --------------------------------------------------------------------------------------------------

enum { ELEMENTS = 1000, BYTES = 4 * ELEMENTS };

static int64_t barriers(void) {
    return vulkan_counts(0).barriers;
}

// Waits for all earlier work, so that no barriers are pending.
static void settle(struct vulkan_device *d) {
    double ns;
    CHECK(vulkan_time(d, (bool (*)(void *))vulkan_submit, d, &ns));
}

TEST(vulkan_runs_a_module) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d && vulkan_add_function(d));
    void *x = vulkan_zeros(d, ELEMENTS), *y = vulkan_zeros(d, ELEMENTS);
    CHECK(vulkan_add(d, x, y, ELEMENTS, 7));
    CHECK_EQ_INT(vulkan_last(d, y, ELEMENTS), 7);
    CHECK_EQ_INT(vulkan_last(d, x, ELEMENTS), 0);
    vulkan_free(d, x);
    vulkan_free(d, y);
}

TEST(vulkan_launches_more_groups_than_a_row_has) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d && vulkan_add_function(d));
    uint32_t n = 64 * 65536 + 5;
    void *x = vulkan_zeros(d, n), *y = vulkan_zeros(d, n);
    CHECK(vulkan_add(d, x, y, n, 3));
    CHECK_EQ_INT(vulkan_last(d, y, n), 3);
    vulkan_free(d, x);
    vulkan_free(d, y);
}

TEST(vulkan_refuses_what_is_no_module) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d);
    struct text source = {0}, code = {0};
    text_bytes(&source, (const char *)vulkan_add_words, 4 * 20);
    source.data[4 * 10 + 2] = 100; // an instruction with a length of 100 words
    CHECK_ERROR(ZL_ERROR_COMPILE, vulkan_compile(d, &source, &code));
    CHECK_ERROR(ZL_ERROR_COMPILE, vulkan_load(d, "12345678", 8, 0, NULL));
    struct vulkan_function *two[2];
    text_free(&source);
    text_free(&code);
    text_bytes(&source, (const char *)vulkan_add_words, sizeof vulkan_add_words);
    CHECK(vulkan_compile(d, &source, &code));
    CHECK_ERROR(ZL_ERROR_COMPILE,
                vulkan_load(d, code.data, (size_t)code.len, 2, two)); // the code has one entry point
    text_free(&source);
    text_free(&code);
}

// The order of work -----------------------------------------------------------------------------------------

TEST(vulkan_independent_commands_have_no_barrier) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d && vulkan_add_function(d));
    enum { OPS = 64 };
    void *x = vulkan_zeros(d, ELEMENTS), *y[OPS];
    for (int i = 0; i < OPS; i++)
        y[i] = vulkan_zeros(d, ELEMENTS);
    settle(d);
    int64_t before = barriers();
    for (int i = 0; i < OPS; i++) // all read the same array; their outputs are side by side in one block
        CHECK(vulkan_add(d, x, y[i], ELEMENTS, (uint32_t)i));
    CHECK_EQ_INT(barriers() - before, 0);
    for (int i = 0; i < OPS; i++)
        CHECK_EQ_INT(vulkan_last(d, y[i], ELEMENTS), i);
    for (int i = 0; i < OPS; i++)
        vulkan_free(d, y[i]);
    vulkan_free(d, x);
}

TEST(vulkan_each_conflict_has_one_barrier) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d && vulkan_add_function(d));
    void *a = vulkan_zeros(d, ELEMENTS), *b = vulkan_zeros(d, ELEMENTS), *c = vulkan_zeros(d, ELEMENTS);
    const struct {
        void *from, *to, *from2, *to2;
    } pair[] = {
        {a, b, b, c}, // read after write
        {a, b, c, a}, // write after read
        {a, b, c, b}, // write after write
    };
    for (size_t i = 0; i < COUNT(pair); i++) {
        settle(d);
        int64_t before = barriers();
        CHECK(vulkan_add(d, pair[i].from, pair[i].to, ELEMENTS, 1) &&
              vulkan_add(d, pair[i].from2, pair[i].to2, ELEMENTS, 1));
        CHECK_EQ_INT(barriers() - before, 1);
    }
    vulkan_free(d, a);
    vulkan_free(d, b);
    vulkan_free(d, c);
}

TEST(vulkan_dependent_commands_are_in_order_and_few_submissions) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d && vulkan_add_function(d));
    void *x[2] = {vulkan_zeros(d, ELEMENTS), vulkan_zeros(d, ELEMENTS)};
    settle(d);
    int64_t submissions = vulkan_counts(0).submissions;
    for (int i = 0; i < 100; i++)
        CHECK(vulkan_add(d, x[i % 2], x[(i + 1) % 2], ELEMENTS, 1));
    CHECK_EQ_INT(vulkan_last(d, x[0], ELEMENTS), 100);
    CHECK(vulkan_counts(0).submissions - submissions <= 3);
    vulkan_free(d, x[0]);
    vulkan_free(d, x[1]);
}

// A copy to memory that commands still use comes after them, although the host could write it at once.
TEST(vulkan_copies_keep_their_place) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d && vulkan_add_function(d));
    void *x = vulkan_zeros(d, ELEMENTS), *y = vulkan_zeros(d, ELEMENTS);
    uint32_t *ones = memory_zero(BYTES);
    REQUIRE(ones);
    for (int i = 0; i < ELEMENTS; i++)
        ones[i] = 1;
    for (uint32_t turn = 1; turn < 200; turn++) { // more turns than there are batches
        CHECK(vulkan_add(d, x, y, ELEMENTS, turn));
        CHECK(vulkan_write(d, x, ones, BYTES));
        if (turn > 1 && turn % 50)
            continue;
        CHECK_EQ_INT(vulkan_last(d, y, ELEMENTS), turn == 1 ? 1 : turn + 1);
    }
    memory_free(ones);
    vulkan_free(d, x);
    vulkan_free(d, y);
}

TEST(vulkan_copies_much_through_little_memory) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d && vulkan_add_function(d));
    uint32_t n = 10 << 20, *data = memory_zero(4 * (size_t)n);
    void *x = vulkan_alloc(d, 4 * (size_t)n), *y = vulkan_zeros(d, ELEMENTS);
    REQUIRE(x && y && data);
    data[n - 1] = 9;
    CHECK(vulkan_add(d, y, x, ELEMENTS, 1)); // so that the copy has to wait for it
    CHECK(vulkan_write(d, x, data, 4 * (size_t)n));
    data[n - 1] = 0;
    CHECK_EQ_INT(vulkan_last(d, x, n), 9);
    memory_free(data);
    vulkan_free(d, x);
    vulkan_free(d, y);
}

static void *launch_many(void *data) {
    struct vulkan_device *d = data;
    void *x[2] = {vulkan_zeros(d, ELEMENTS), vulkan_zeros(d, ELEMENTS)};
    for (int i = 0; i < 300; i++)
        CHECK(vulkan_add(d, x[i % 2], x[(i + 1) % 2], ELEMENTS, 1));
    CHECK_EQ_INT(vulkan_last(d, x[0], ELEMENTS), 300);
    CHECK(vulkan_wait(d, vulkan_point(d)));
    vulkan_free(d, x[0]);
    vulkan_free(d, x[1]);
    return NULL;
}

TEST(vulkan_threads_share_a_queue) {
    struct vulkan_device *d = vulkan_device(0);
    pthread_t thread[4];
    REQUIRE(d && vulkan_add_function(d));
    for (size_t i = 0; i < COUNT(thread); i++)
        REQUIRE(!pthread_create(&thread[i], NULL, launch_many, d));
    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_join(thread[i], NULL);
}

static bool add_ten_times(void *data) {
    struct vulkan_device *d = vulkan_device(0);
    for (int i = 0; i < 10; i++)
        if (!vulkan_add(d, data, data, ELEMENTS, 1))
            return false;
    return true;
}

TEST(vulkan_tells_how_long_something_took) {
    struct vulkan_device *d = vulkan_device(0);
    double ns = 0;
    REQUIRE(d && vulkan_add_function(d));
    void *x = vulkan_zeros(d, ELEMENTS);
    CHECK(vulkan_time(d, add_ten_times, x, &ns));
    CHECK(ns > 0 && ns < 60e9);
    CHECK_EQ_INT(vulkan_last(d, x, ELEMENTS), 10);
    vulkan_free(d, x);
}

// Arrays ----------------------------------------------------------------------------------------------------

static zl_scope begin_arrays(void) {
    test_setenv("ZL_CACHE_DIR", test_folder());
    return zl_scope_begin_on(zl_new_stream("vulkan"));
}

static void end_arrays(zl_scope scope) {
    zl_scope_end(scope);
    test_setenv("ZL_CACHE_DIR", NULL);
}

TEST(vulkan_shapes_share_a_pipeline) {
    zl_scope scope = begin_arrays();
    int64_t before = counter_value(COUNTER_COMPILES);
    for (int n = 1; n <= 100; n++)
        CHECK(zl_eval(zl_tanh(zl_ones(ZL_SHAPE(n, 3), ZL_FLOAT32))));
    CHECK(counter_value(COUNTER_COMPILES) - before <= 3); // a version for single elements, and versions for
                                                          // several at once
    end_arrays(scope);
}

TEST(vulkan_steps_need_no_more_memory) {
    zl_scope scope = begin_arrays();
    int64_t blocks = 0, submissions = 0, steps = test_quick() ? 100 : 1000;
    zl_array x = zl_retain(zl_ones(ZL_SHAPE(1000), ZL_FLOAT32));
    for (int64_t i = 0; i < steps; i++) {
        if (i == 10)
            blocks = vulkan_blocks_made(0), submissions = vulkan_counts(0).submissions;
        ZL_SCOPE {
            zl_array y = zl_add(zl_multiply(x, zl_scalar(0.5)), zl_sum(zl_sin(x)));
            CHECK(zl_assign(&x, zl_divide(y, zl_max(y))));
        }
    }
    CHECK_EQ_INT(vulkan_blocks_made(0), blocks);
    CHECK(vulkan_counts(0).submissions - submissions <= 3 * steps);
    CHECK_EQ_F64(zl_item(zl_max(x)), 1);
    zl_release(x);
    end_arrays(scope);
}

// Under the validation layer --------------------------------------------------------------------------------

// Runs tests in a process of their own, with validation of synchronisation as well. Returns its output, which
// the caller frees.
static char *validate(const char *tests) {
    char command[1000];
    int status;
    snprintf(command, sizeof command,
             "VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_"
             "SYNCHRONIZATION_VALIDATION_EXT %s/test %s 2>&1",
             ZL_BUILD_DIR, tests);
    char *output = test_shell(command, &status);
    if (!CHECK(status == 0 && output && strstr(output, " 0 failed, 0 skipped")))
        test_note("%s", output);
    return output;
}

static const char *lacks_layer(void) {
    static const char manifest[] = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
    return test_quick() || getenv("VK_INSTANCE_LAYERS") ? "takes longer than a quick run"
           : access(manifest, R_OK) ? "Debian's package vulkan-validationlayers is not installed"
                                    : NULL;
}

TEST(valid_by_the_layer) {
    if (lacks_layer())
        SKIP(lacks_layer());
    char *output = validate("device/test_vulkan:vulkan_ device/test_group_tile:groups_are_timed "
                            "device/test_vulkan_steady:random_programs");
    if (!CHECK(output && !strstr(output, "Validation")))
        test_note("%s", output);
    memory_free(output);
}

// Without this check, silence of the layer would prove nothing.
TEST(a_missing_barrier_is_seen_by_the_layer) {
    if (lacks_layer())
        SKIP(lacks_layer());
    char *output = validate("device/test_vulkan:launches_without_barriers");
    if (!CHECK(output && strstr(output, "SYNC-HAZARD-READ-AFTER-WRITE")))
        test_note("%s", output);
    memory_free(output);
}

static void no_barrier(vk_commands c, uint32_t before, uint32_t after, uint32_t flags, uint32_t memories,
                       const struct vk_barrier *memory, uint32_t buffers, const void *buffer, uint32_t images,
                       const void *image) {
    (void)c, (void)before, (void)after, (void)flags, (void)memories;
    (void)memory, (void)buffers, (void)buffer, (void)images, (void)image;
}

TEST(launches_without_barriers) {
    struct vulkan_device *d = vulkan_device(0);
    if (!getenv("VK_INSTANCE_LAYERS"))
        SKIP("is for device/test_vulkan:a_missing_barrier_is_seen_by_the_layer");
    REQUIRE(d && vulkan_add_function(d));
    void *x = vulkan_zeros(d, ELEMENTS), *y = vulkan_zeros(d, ELEMENTS);
    struct vulkan_device_api api = d->api;
    d->api.vkCmdPipelineBarrier = no_barrier;
    CHECK(vulkan_add(d, x, y, ELEMENTS, 1) && vulkan_add(d, y, x, ELEMENTS, 1));
    CHECK(vulkan_wait(d, vulkan_point(d)));
    d->api = api;
    vulkan_free(d, x);
    vulkan_free(d, y);
}

// Behind the driver of test/fake ----------------------------------------------------------------------------

// Returns why the driver of test/fake, which passes calls on to lavapipe, finds no device; NULL: it works.
static const char *lacks_lavapipe(void) {
    void *library = dlopen("libvulkan_lvp.so", RTLD_NOW | RTLD_LOCAL); // not closed: its threads may still
                                                                       // run
    return library ? NULL : "lavapipe is not installed, in front of which the driver of test/fake stands";
}

// Runs tests in a process whose driver gets this setting; all have to pass.
static void run_under_fake(const char *told, const char *tests) {
    char command[1000];
    int status;
    snprintf(command, sizeof command, "VK_DRIVER_FILES=%s/fake/vulkan.json FAKE_VULKAN=%s %s/test %s 2>&1",
             ZL_BUILD_DIR, told, ZL_BUILD_DIR, tests);
    char *output = test_shell(command, &status);
    if (!CHECK(status == 0 && output && strstr(output, " 0 failed, 0 skipped")))
        test_note("%s", output);
    memory_free(output);
}

// A chip that two drivers can use counts as one GPU: that of the device that is listed first, or of the one
// that the user chose.
TEST(one_chip_is_one_gpu) {
    static const struct {
        const char *chosen, *gpu;
    } given[] = {{"", "cuda 0"}, {"vulkan", "vulkan 0"}, {"vulkan:0", "vulkan 0"}, {"cuda:1", "cuda 0"}};
    if (lacks_lavapipe())
        SKIP(lacks_lavapipe());
    for (size_t i = 0; i < COUNT(given); i++) {
        char command[1000];
        int status;
        snprintf(command, sizeof command,
                 "LD_LIBRARY_PATH=%s/fake VK_DRIVER_FILES=%s/fake/vulkan.json FAKE_VULKAN=gpu ZL_DEVICE=%s "
                 "%s/test --no-fork device/test_vulkan_fake:lists_gpus 2>&1",
                 ZL_BUILD_DIR, ZL_BUILD_DIR, given[i].chosen, ZL_BUILD_DIR);
        char *output = test_shell(command, &status);
        bool first = output && strstr(output, given[i].gpu), cuda = !strncmp(given[i].gpu, "cuda", 4);
        CHECK(first && strstr(output, "cuda 1 is a GPU") &&
              !strstr(output, cuda ? "vulkan 0 is a" : "cuda 0 is a"));
        memory_free(output);
    }
}

static void try_again(struct vulkan_device *d) {
    atomic_store(&d->knows_rounding, false);
    CHECK(vulkan_device(0) == d);
}

// Lavapipe's fma rounds twice; its other ops round as the CPU does.
TEST(how_a_chip_rounds_is_tried) {
    struct vulkan_device *d = vulkan_device(0);
    REQUIRE(d);
    const struct target_spirv *s = &d->unit.spirv;
    if (lacks_lavapipe())
        SKIP(lacks_lavapipe());
    const char *told = getenv("FAKE_VULKAN");
    CHECK(!s->has_exact_fma && s->has_exact_root && !s->is_inexact && !s->flushes && !s->fma_flushes);
    CHECK(s->has_exact_divide == !(told && strstr(told, "divide")));
    try_again(d); // again, since the device may have been opened with another folder for compiled kernels
    int64_t compiles = zl_counter("compiles");
    try_again(d);
    CHECK_EQ_INT(zl_counter("compiles"), compiles); // the result was kept
}

// If the driver hides f64, the CPU computes sums of f64; it always computes factorisations. A chip with wrong
// products is reported.
TEST(the_device_says_what_it_runs) {
    static const char *const told[] = {"", "f64", "multiply"};
    if (lacks_lavapipe())
        SKIP(lacks_lavapipe());
    if (access(ZL_BUILD_DIR "/zellige", X_OK))
        SKIP("this build has no program zellige");
    for (size_t i = 0; i < COUNT(told); i++) {
        char command[1000];
        int status;
        snprintf(command, sizeof command,
                 "VK_DRIVER_FILES=%s/fake/vulkan.json FAKE_VULKAN=%s %s/zellige devices --support 2>&1 | "
                 "sed -n '/^vulkan/,/ops are native/p'",
                 ZL_BUILD_DIR, told[i], ZL_BUILD_DIR);
        char *output = test_shell(command, &status);
        CHECK(status == 0 && output && strstr(output, "cholesky             on the CPU: there is no kernel"));
        CHECK(output && !strstr(output, " add  ") == (i != 1));
        CHECK(output && !strstr(output, "does not round to the nearest") == (i != 2));
        if (i == 1)
            CHECK_HAS(output, "add                  on the CPU of float64: ");
        memory_free(output);
    }
}

TEST(behind_other_drivers) {
    static const char *const told[] = {"discrete", "bar,late", "push,late", "discrete,push"};
    if (getenv("FAKE_VULKAN") || test_quick())
        SKIP("takes longer than a quick run");
    if (lacks_lavapipe())
        SKIP(lacks_lavapipe());
    run_under_fake("divide ZL_DEVICE=vulkan",
                   "device/test_vulkan:how_a_chip_rounds op/test_elementwise:elementwise_values "
                   "op/test_elementwise:division_by");
    for (size_t i = 0; i < COUNT(told); i++) {
        run_under_fake(told[i], "device/test_vulkan:vulkan_");
        run_under_fake(told[i], "device/test_vulkan_fake");
        run_under_fake(told[i], "--quick --except another_process device/test_vulkan_steady");
    }
}

// Drivers with small limits for bindings. Memory beyond the limits is reached by addresses, or there is an
// error that says so. If bindings are limited to 16 bytes, everything is beyond them.
TEST(behind_drivers_that_bind_little) {
    static const char *const told[] = {"range=16384", "buffers=4", "buffers=4,addresses",
                                       "range=16384,addresses,push"};
    if (getenv("FAKE_VULKAN") || test_quick())
        SKIP("takes longer than a quick run");
    if (lacks_lavapipe())
        SKIP(lacks_lavapipe());
    for (size_t i = 0; i < COUNT(told); i++)
        run_under_fake(told[i], "device/test_vulkan_fake");
    run_under_fake("range=16,storage8 ZL_DEVICE=vulkan",
                   "--quick op/test_logic op/test_shape_ops op/test_take");
    run_under_fake("range=16,push_bytes=32", "--quick device/test_group_tile:groups_run_as_interpreted");
}
