// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/settings.hpp"
#include "runtime/tensorflow/tf_api.hpp"

#include <catch2/catch.hpp>

using hvd::tf::request_name;
using hvd::tf::Settings;

TEST_CASE("a single tensor goes by the name of its operation") {
    CHECK(request_name({.name = "a"}, 0, 0, 1) == "a");
    CHECK(request_name({.name = "f/a", .is_named_by_node = true}, 0, 0, 1) == "f/a");
}

TEST_CASE("the tensors of a group are told apart by their place") {
    CHECK(request_name({.name = "g"}, 0, 0, 3) == "g_1of3");
    CHECK(request_name({.name = "g"}, 0, 2, 3) == "g_3of3");
}

TEST_CASE("iterations of a loop that may run together have names of their own") {
    const Settings settings{.name = "f/a", .is_named_by_node = true};

    CHECK(request_name(settings, 1, 0, 1) == "f/a#1");
    CHECK(request_name(settings, 2, 1, 2) == "f/a#2_2of2");
}

TEST_CASE("a loop of many iterations needs a bounded number of names") {
    const Settings settings{.name = "a", .is_named_by_node = true};

    CHECK(request_name(settings, 64 + 5, 0, 1) == request_name(settings, 5, 0, 1));
}

TEST_CASE("a name that was given is the name in every iteration") {
    CHECK(request_name({.name = "a"}, 7, 0, 1) == "a");
}

TEST_CASE("without TensorFlow in the process the op library says so") {
    CHECK(hvd::tf::load() ==
          "libhorovod_tf.so: TensorFlow is not loaded in this process; import tensorflow first");
}
