// SPDX-License-Identifier: Apache-2.0

// The names are the linker's: --wrap, see CMakeLists.txt.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
extern "C" {

/**
 * std::ios_base::Init of the files of yaml-cpp and Boost that include <iostream>: before main(), at
 * every start, it would make std::cout and its like with all facets of a locale. Nobody may use
 * those here, and nobody can: the linker looks for wrappers of them too, and there are none.
 */
void __wrap__ZNSt8ios_base4InitC1Ev(void* /*self*/) {}
void __wrap__ZNSt8ios_base4InitD1Ev(void* /*self*/) {}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
