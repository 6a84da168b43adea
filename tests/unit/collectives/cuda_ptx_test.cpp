// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/pack_arguments.hpp"
#include "collectives/cuda/ptx.hpp"

#include <catch2/catch.hpp>

#include <string>

using Catch::Matchers::Contains;
using hvd::coll::cuda::ptx_for;
using hvd::coll::cuda::ptx_modules;

TEST_CASE("every module has every kernel, its own target and an old version of PTX") {
    REQUIRE(ptx_modules().size() == 4);
    for (const auto& module : ptx_modules()) {
        const std::string text(module.text);
        CAPTURE(module.capability);
        CHECK(*(module.text.data() + module.text.size()) == '\0');
        CHECK_THAT(text, Contains(".target sm_" + std::to_string(module.capability) + "\n"));
        CHECK_THAT(text, !Contains(".version 9"));
#define CHECK_KERNEL(from, to) CHECK_THAT(text, Contains(".entry hvd_convert_" #from "_" #to "("));
        HVD_PACK_KERNELS(CHECK_KERNEL)
#undef CHECK_KERNEL
        CHECK_THAT(text, Contains(".entry hvd_copy("));
    }
}

TEST_CASE("a GPU gets the last module that it can take") {
    CHECK(ptx_for(70) == nullptr);
    CHECK(ptx_for(75)->capability == 75);
    CHECK(ptx_for(89)->capability == 80);
    CHECK(ptx_for(90)->capability == 90);
    CHECK(ptx_for(121)->capability == 100);
}
