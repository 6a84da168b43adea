// SPDX-License-Identifier: Apache-2.0
//
// libssh2 1.10 never frees a number that it reads from an ECDSA key file in OpenSSH's own format.
// To see its name, stacks have to be unwound the slow way: libcrypto keeps no frame pointers; and
// clang's run time asks llvm-symbolizer (package llvm-14) for it.

#if defined(HVD_SANITIZE_ADDRESS)

// NOLINTBEGIN(bugprone-reserved-identifier): the sanitizer calls them by these names
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
    return "fast_unwind_on_malloc=0";
}

extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
    return "leak:gen_publickey_from_ecdsa_openssh_priv_data\n";
}
// NOLINTEND(bugprone-reserved-identifier)

#endif
