// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/adasum_arguments.hpp"
#include "collectives/cuda/pack_arguments.hpp"
#include "collectives/cuda/ptx.hpp"

#include <catch2/catch.hpp>

#include <string>

using Catch::Matchers::Contains;
using hvd::coll::cuda::cubin_for;
using hvd::coll::cuda::ptx_for;
using hvd::coll::cuda::ptx_modules;
using hvd::coll::cuda::toolkit_major;

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
#define CHECK_ADASUM(type)                                           \
    CHECK_THAT(text, Contains(".entry hvd_adasum_dots_" #type "(")); \
    CHECK_THAT(text, Contains(".entry hvd_adasum_combine_" #type "("));
        HVD_ADASUM_TYPES(CHECK_ADASUM)
#undef CHECK_ADASUM
        CHECK_THAT(text, Contains(".entry hvd_adasum_totals("));
    }
}

TEST_CASE("a GPU gets the last module that it can take") {
    CHECK(ptx_for(70) == nullptr);
    CHECK(ptx_for(75)->capability == 75);
    CHECK(ptx_for(89)->capability == 80);
    CHECK(ptx_for(90)->capability == 90);
    CHECK(ptx_for(121)->capability == 100);
}

TEST_CASE("every module has a cubin with every kernel") {
    for (const auto& module : ptx_modules()) {
        const std::string image(reinterpret_cast<const char*>(module.cubin.data()),
                                module.cubin.size());
        CAPTURE(module.capability);
        CHECK(image.substr(1, 3) == "ELF");
#define CHECK_SECTION(from, to) CHECK(image.find(".text.hvd_convert_" #from "_" #to) != image.npos);
        HVD_PACK_KERNELS(CHECK_SECTION)
#undef CHECK_SECTION
        CHECK(image.find(".text.hvd_copy") != image.npos);
    }
}

TEST_CASE("a GPU gets a cubin of its own major capability, from a toolkit of its driver's") {
    const auto cubin = [](int capability) { return ptx_for(capability)->cubin.data(); };
    const int driver = 1000 * toolkit_major() + 20;
    CHECK(toolkit_major() >= 13);
    CHECK(cubin_for(75, driver).data() == cubin(75));
    CHECK(cubin_for(89, driver).data() == cubin(80));
    CHECK(cubin_for(90, driver).data() == cubin(90));
    CHECK(cubin_for(103, driver).data() == cubin(100));
    CHECK(cubin_for(70, driver).empty());
    CHECK(cubin_for(121, driver).empty());
    CHECK(cubin_for(80, driver - 1000).empty());
    CHECK(cubin_for(80, driver + 1000).empty());
}
