// SPDX-License-Identifier: Apache-2.0
//
// The attributes of a collective op, as a value, and how a name comes out of them. Pure but for
// read_settings.
#pragma once

#include "runtime/tensorflow/tf_api.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace hvd::tf {

struct Settings {
    std::string name;         // of the operation on the wire, before iteration and group position
    bool is_named_by_node{};  // `name` is the graph node's: parallel loop iterations need telling
                              // apart
    std::int64_t reduce_op{};
    std::int64_t root{};
    std::int64_t process_set{};
    double prescale = 1;
    double postscale = 1;
};

/// Reads the attributes that every collective op has. On failure reports to `construction` and
/// returns nothing.
std::optional<Settings> read_settings(Construction* construction);

/// The wire name of input `index` of `count` in loop iteration `iteration` (0 outside loops).
std::string request_name(const Settings& settings,
                         std::int64_t iteration,
                         std::size_t index,
                         std::size_t count);

}  // namespace hvd::tf
