#include "codec/library.h"

#include <dlfcn.h>
#include <string.h>

void *ss_library_load(const char *file, const ss_symbol *symbols, size_t n_symbols) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < n_symbols; i++) {
        /* POSIX lets dlsym give functions; ISO C has no cast for that, hence the copy. */
        void *function = dlsym(library, symbols[i].name);
        memcpy(symbols[i].function, &function, sizeof function);
        if (!function) {
            dlclose(library);
            library = NULL;
        }
    }
    return library;
}

void ss_library_unload(void *library) {
    if (library) {
        dlclose(library);
    }
}

ss_status ss_codec_fail(ss_error *error, ss_status code, size_t offset, const char *reason) {
    if (error) {
        *error = (ss_error){.code = code, .offset = offset, .reason = reason};
    }
    return code;
}
