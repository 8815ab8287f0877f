/* Runs a fuzz target over files and folders of inputs, for compilers without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, size_t size) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    if (!file || !data || fread(data, 1, size, file) != size) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

static int replay(const char *path) {
    struct stat status;
    if (stat(path, &status)) {
        fprintf(stderr, "cannot stat %s\n", path);
        return 1;
    }
    if (!S_ISDIR(status.st_mode)) {
        return replay_file(path, (size_t)status.st_size);
    }
    DIR *folder = opendir(path);
    int failures = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char child[4096];
        if (entry->d_name[0] != '.' &&
            snprintf(child, sizeof child, "%s/%s", path, entry->d_name) < (int)sizeof child) {
            failures += replay(child);
        }
    }
    closedir(folder);
    return failures;
}

int main(int argc, char **argv) {
    int failures = 0;
    for (int i = 1; i < argc; i++) {
        failures += replay(argv[i]);
    }
    return failures ? 1 : 0;
}
