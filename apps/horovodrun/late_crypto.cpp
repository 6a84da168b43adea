// SPDX-License-Identifier: Apache-2.0

namespace {

bool is_started = false;

/** Constructors run after .init, from which libcrypto calls OPENSSL_cpuid_setup(). */
[[gnu::constructor]] void note_start() {
    is_started = true;
}

}  // namespace

// The names are the linker's: --wrap, see CMakeLists.txt.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
extern "C" {

void __real_OPENSSL_cpuid_setup();

/**
 * Asks the CPU what it can do, but not before main() at every start: each cpuid instruction leaves
 * a virtual machine for microseconds. OPENSSL_init_crypto() calls it once more, in time for SSH.
 */
void __wrap_OPENSSL_cpuid_setup() {
    if (is_started) {
        __real_OPENSSL_cpuid_setup();
    }
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
