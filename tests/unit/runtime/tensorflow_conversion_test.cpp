// SPDX-License-Identifier: Apache-2.0
#include "runtime/include/hvd/hvd.h"
#include "runtime/tensorflow/conversion.hpp"
#include "runtime/tensorflow/tf_api.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <optional>

using hvd::tf::DataType;
using hvd::tf::element_bytes;
using hvd::tf::to_hvd;

TEST_CASE("every type of TensorFlow that a collective carries has the size of its elements") {
    struct Known {
        DataType type;
        hvd_dtype dtype;
        std::size_t bytes;
    };
    const auto known = GENERATE(values<Known>({{DataType::boolean, HVD_BOOL, 1},
                                               {DataType::uint8, HVD_UINT8, 1},
                                               {DataType::int8, HVD_INT8, 1},
                                               {DataType::uint16, HVD_UINT16, 2},
                                               {DataType::int16, HVD_INT16, 2},
                                               {DataType::uint32, HVD_UINT32, 4},
                                               {DataType::int32, HVD_INT32, 4},
                                               {DataType::uint64, HVD_UINT64, 8},
                                               {DataType::int64, HVD_INT64, 8},
                                               {DataType::float16, HVD_FLOAT16, 2},
                                               {DataType::bfloat16, HVD_BFLOAT16, 2},
                                               {DataType::float32, HVD_FLOAT32, 4},
                                               {DataType::float64, HVD_FLOAT64, 8}}));
    CAPTURE(known.dtype);

    CHECK(to_hvd(known.type) == known.dtype);
    CHECK(element_bytes(known.dtype) == known.bytes);
}

TEST_CASE("a type that no collective carries has no counterpart") {
    constexpr int kString = 7;

    CHECK(to_hvd(static_cast<DataType>(kString)) == std::nullopt);
}
