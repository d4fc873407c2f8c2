// test_file.c - src/base/file.c: replacing files, their modes, owners, symbolic links, and places that are
// not regular files.

#include "test.h"

#include "base/base.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

// Returns a path in the test's folder. Uses eight buffers in turn, as many as one test needs at the same
// time.
static const char *path_to(const char *name) {
    static char path[8][1024];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder(), name);
    return path[turn];
}

static void check_content(const char *path, const char *expected) {
    char *got = file_read(path, NULL);
    CHECK_STR(got, expected);
    memory_free(got);
}

static unsigned mode_of(const char *path) {
    struct stat now;
    return lstat(path, &now) == 0 ? now.st_mode & 07777 : 0;
}

// Returns the number of entries of the test's folder, except . and ..
static int count_entries(void) {
    int count = -2;
    DIR *dir = opendir(test_folder());
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

TEST(file_write_keeps_the_mode) {
    static const mode_t modes[] = {0600, 0640, 0666, 0755, 0200};
    const char *path = path_to("a");
    mode_t before = umask(027);
    REQUIRE(file_write(path, "new", 3));
    CHECK_EQ_INT(mode_of(path), 0640); // a new file follows the umask
    for (size_t i = 0; i < COUNT(modes); i++) {
        REQUIRE(chmod(path, modes[i]) == 0 && file_write(path, "old", 3));
        CHECK_EQ_INT(mode_of(path), modes[i]);
    }
    umask(before);
    CHECK_EQ_INT(count_entries(), 1);
}

TEST(file_write_keeps_the_owner) {
    struct stat now;
    const char *path = path_to("a");
    REQUIRE(file_write(path, "old", 3));
    if (chown(path, 1234, 2345) != 0)
        SKIP("only root may give files away");
    REQUIRE(chmod(path, 04640) == 0 && file_write(path, "new", 3) && stat(path, &now) == 0);
    CHECK_EQ_INT(now.st_uid, 1234);
    CHECK_EQ_INT(now.st_gid, 2345);
    CHECK_EQ_INT(now.st_mode & 07777, 04640);
    check_content(path, "new");
}

TEST(file_write_refuses_what_may_not_be_written) {
    const char *path = path_to("a");
    REQUIRE(file_write(path, "old", 3) && chmod(path, 0444) == 0);
    if (access(path, W_OK) == 0)
        SKIP("root may write everything");
    CHECK_ERROR(ZL_ERROR_IO, file_write(path, "new", 3));
    CHECK_HAS(test_last_error(), "Permission denied");
    check_content(path, "old");
}

static bool is_link(const char *path) {
    struct stat now;
    return lstat(path, &now) == 0 && S_ISLNK(now.st_mode);
}

TEST(file_write_follows_symbolic_links) {
    REQUIRE(mkdir(path_to("below"), 0777) == 0 && file_write(path_to("below/file"), "old", 3));
    REQUIRE(chmod(path_to("below/file"), 0604) == 0);
    REQUIRE(symlink("file", path_to("below/relative")) == 0 &&
            symlink("below/relative", path_to("chain")) == 0 &&
            symlink(path_to("chain"), path_to("absolute")) == 0);
    static const char *const links[] = {"below/relative", "chain", "absolute"};
    for (size_t i = 0; i < COUNT(links); i++) {
        REQUIRE(file_write(path_to(links[i]), links[i], strlen(links[i])));
        check_content(path_to("below/file"), links[i]);
        CHECK_EQ_INT(mode_of(path_to("below/file")), 0604);
        for (size_t k = 0; k < COUNT(links); k++)
            CHECK(is_link(path_to(links[k])));
    }
    REQUIRE(symlink("below/later", path_to("dangling")) == 0 && file_write(path_to("dangling"), "new", 3));
    CHECK(is_link(path_to("dangling")) && !is_link(path_to("below/later")));
    check_content(path_to("below/later"), "new");
    CHECK_EQ_INT(count_entries(), 4);
}

TEST(file_write_ends_in_loops_of_links) {
    REQUIRE(symlink("b", path_to("a")) == 0 && symlink("a", path_to("b")) == 0);
    CHECK_ERROR(ZL_ERROR_IO, file_write(path_to("a"), "x", 1));
    CHECK_HAS(test_last_error(), "symbolic links");
    CHECK_EQ_INT(count_entries(), 2);
}

TEST(file_write_replaces_regular_files_only) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(mkfifo(path_to("fifo"), 0666) == 0 && mkdir(path_to("folder"), 0777) == 0);
    REQUIRE(symlink("fifo", path_to("link")) == 0);
    if ((size_t)snprintf(name.sun_path, sizeof name.sun_path, "%s", path_to("socket")) <
            sizeof name.sun_path &&
        bind(end, (struct sockaddr *)&name, sizeof name) == 0) {
        CHECK_ERROR(ZL_ERROR_IO, file_write(path_to("socket"), "x", 1));
        CHECK_HAS(test_last_error(), "a socket");
        unlink(path_to("socket"));
    }
    close(end);
    static const struct {
        const char *name, *what;
    } others[] = {{"fifo", "a FIFO"}, {"link", "a FIFO"}, {"folder", "a directory"}};
    for (size_t i = 0; i < COUNT(others); i++) {
        CHECK_ERROR(ZL_ERROR_IO, file_write(path_to(others[i].name), "x", 1));
        CHECK_HAS(test_last_error(), others[i].what);
        CHECK_HAS(test_last_error(), path_to(others[i].name));
    }
    // A device file made for the test: if it were not refused, a run as root would replace the machine's own.
    if (mknod(path_to("null"), S_IFCHR | 0666, makedev(1, 3)) == 0) {
        CHECK_ERROR(ZL_ERROR_IO, file_write(path_to("null"), "x", 1));
        CHECK_HAS(test_last_error(), "a device");
        unlink(path_to("null"));
    }
    CHECK_EQ_INT(count_entries(), 3);
}

TEST(file_write_takes_long_names) {
    char name[300];
    memset(name, 'a', sizeof name);
    name[255] = 0;
    REQUIRE(file_write(path_to(name), "x", 1));
    check_content(path_to(name), "x");
    name[255] = 'a', name[256] = 0;
    CHECK_ERROR(ZL_ERROR_IO, file_write(path_to(name), "x", 1));
    CHECK_HAS(test_last_error(), "too long");
    CHECK_EQ_INT(count_entries(), 1);
}

// A mapping of the old contents does not change.
TEST(file_write_leaves_maps_alone) {
    size_t bytes;
    REQUIRE(file_write(path_to("a"), "old", 3) && symlink("a", path_to("link")) == 0);
    const char *map = file_map(path_to("a"), 0, &bytes);
    REQUIRE(map && file_write(path_to("link"), "", 0));
    CHECK(bytes == 3 && !memcmp(map, "old", 3));
    file_unmap(map, bytes);
    CHECK(!file_map(path_to("a"), 1, &bytes) && !zl_error());
}
