// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/settings.hpp"

#include <charconv>
#include <string_view>

namespace hvd::tf {
namespace {

// Iterations of one while loop that may run at the same time need names of their own. TensorFlow
// runs 10 unless told otherwise; a ring keeps the number of names bounded.
constexpr std::int64_t kIterationNames = 64;

std::string read_text(Construction* construction, const char* attribute, Status* status) {
    std::int32_t list_size = 0;
    std::int32_t size = 0;
    api().attr_size(construction, attribute, &list_size, &size, status);
    if (api().get_code(status) != Code::ok || size <= 0) {
        return "";
    }
    std::string text(static_cast<std::size_t>(size), '\0');
    api().attr_string(construction, attribute, text.data(), text.size(), status);
    return text;
}

// Scales are decimal texts: a TensorFlow attribute of type float would cut them to 32 bits.
double read_scale(Construction* construction, const char* attribute, Status* status) {
    const std::string text = read_text(construction, attribute, status);
    if (api().get_code(status) != Code::ok) {
        return 1;
    }
    double value = 1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        const std::string what = std::string(attribute) + "='" + text + "' is not a number";
        api().set_status(status, Code::invalid_argument, what.c_str());
    }
    return value;
}

std::int64_t read_number(Construction* construction, const char* attribute, Status* status) {
    std::int64_t value = 0;
    api().attr_int64(construction, attribute, &value, status);
    return value;
}

std::string node_name(Construction* construction, bool without_scope) {
    const StringView view = api().construction_name(construction);
    const std::string_view name(view.data, view.size);
    return std::string(without_scope ? name.substr(name.rfind('/') + 1) : name);
}

}  // namespace

std::optional<Settings> read_settings(Construction* construction) {
    const StatusPtr status = make_status();
    Settings settings;
    const auto failed = [&] { return !is_ok(status); };

    settings.name = read_text(construction, "tensor_name", status.get());
    if (!failed() && settings.name.empty()) {
        unsigned char without_scope = 0;
        api().attr_bool(construction, "ignore_name_scope", &without_scope, status.get());
        settings.name = node_name(construction, without_scope != 0);
        settings.is_named_by_node = true;
    }
    if (!failed()) {
        settings.reduce_op = read_number(construction, "reduce_op", status.get());
    }
    if (!failed()) {
        settings.root = read_number(construction, "root_rank", status.get());
    }
    if (!failed()) {
        settings.process_set = read_number(construction, "process_set_id", status.get());
    }
    if (!failed()) {
        settings.prescale = read_scale(construction, "prescale_factor", status.get());
    }
    if (!failed()) {
        settings.postscale = read_scale(construction, "postscale_factor", status.get());
    }
    if (failed()) {
        api().construction_failure(construction, status.get());
        return std::nullopt;
    }
    return settings;
}

std::string request_name(const Settings& settings,
                         std::int64_t iteration,
                         std::size_t index,
                         std::size_t count) {
    std::string name = settings.name;
    if (settings.is_named_by_node && iteration > 0) {
        name += "#" + std::to_string(iteration % kIterationNames);
    }
    if (count > 1) {
        name += "_" + std::to_string(index + 1) + "of" + std::to_string(count);
    }
    return name;
}

}  // namespace hvd::tf
