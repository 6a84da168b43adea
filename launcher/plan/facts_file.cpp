// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/facts_file.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace hvd::launch {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

/// Takes the fields of one object, each by its name, and complains about what is left.
class Fields {
public:
    /// `where` begins the errors: "facts.json: node1: GPU 0".
    Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

    [[nodiscard]] Error error(std::string_view why) const {
        return {Errc::invalid_argument, where_ + ": " + std::string(why)};
    }

    /// Nothing where the field is absent or null.
    [[nodiscard]] const Json* find(const char* name) {
        known_.insert(name);
        const auto field = object_.find(name);
        return field == object_.end() || field->is_null() ? nullptr : &*field;
    }

    [[nodiscard]] Status text(const char* name, std::string& value, bool is_needed = false) {
        const auto* field = find(name);
        if (field == nullptr) {
            return missing(name, is_needed);
        }
        if (!field->is_string()) {
            return error("'" + std::string(name) + "' must be a text");
        }
        value = field->get<std::string>();
        return ok();
    }

    template <class Number>
    [[nodiscard]] Status number(const char* name, Number& value, bool is_needed = false) {
        const auto* field = find(name);
        if (field == nullptr) {
            return missing(name, is_needed);
        }
        const auto limit = static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
        if (!field->is_number_unsigned() || field->get<std::uint64_t>() > limit) {
            return error("'" + std::string(name) + "' must be a whole number from 0 to " +
                         std::to_string(limit));
        }
        value = field->get<Number>();
        return ok();
    }

    /// "0-3,8" or [0, 1, 2, 3, 8].
    [[nodiscard]] Status cpus(const char* name, std::vector<int>& value, bool is_needed = false) {
        const auto* field = find(name);
        if (field == nullptr) {
            return missing(name, is_needed);
        }
        auto text = field->is_string() ? field->get<std::string>() : field->dump();
        if (field->is_array()) {
            text = text.substr(1, text.size() - 2);
        }
        auto cpus = parse_ranges(text);
        if (!cpus) {
            return error("'" + std::string(name) + "' must be CPUs such as \"0-3,8\" or [0, 1]");
        }
        value = std::move(*cpus);
        return ok();
    }

    [[nodiscard]] Status refuse_others() const {
        for (const auto& [name, value] : object_.items()) {
            if (!known_.contains(name)) {
                const std::vector<std::string_view> names(known_.begin(), known_.end());
                const auto guess = nearest(name, names);
                return error("unknown field '" + name + "'" +
                             (guess ? "; did you mean '" + std::string(*guess) + "'?" : ""));
            }
        }
        return ok();
    }

private:
    [[nodiscard]] Status missing(const char* name, bool is_needed) const {
        return is_needed ? Status(error("the field '" + std::string(name) + "' is missing")) : ok();
    }

    const Json& object_;
    std::string where_;
    std::set<std::string> known_;
};

Result<Gpu> read_gpu(const Json& object, const std::string& where) {
    Fields fields(object, where);
    if (!object.is_object()) {
        return fields.error("it must be an object with 'index' and 'uuid'");
    }
    Gpu gpu;
    HVD_TRY_STATUS(fields.number("index", gpu.index, true));
    HVD_TRY_STATUS(fields.text("uuid", gpu.uuid, true));
    HVD_TRY_STATUS(fields.text("name", gpu.name));
    HVD_TRY_STATUS(fields.text("parent", gpu.parent));
    HVD_TRY_STATUS(fields.number("memory_bytes", gpu.memory_bytes));
    HVD_TRY_STATUS(fields.cpus("cpus", gpu.cpus));
    HVD_TRY_STATUS(fields.refuse_others());
    return gpu;
}

Result<std::vector<Gpu>> read_gpus(Fields& fields, const std::string& where) {
    std::vector<Gpu> gpus;
    const auto* list = fields.find("gpus");
    if (list == nullptr) {
        return gpus;
    }
    if (!list->is_array()) {
        return fields.error("'gpus' must be a list");
    }
    for (const auto& object : *list) {
        HVD_TRY(auto gpu, read_gpu(object, where + ": GPU " + std::to_string(gpus.size())));
        gpus.push_back(std::move(gpu));
    }
    return gpus;
}

Result<HostFacts> read_host(const Json& object, const std::string& file, std::size_t index) {
    HostFacts facts;
    Fields named(object, file + ": host " + std::to_string(index));
    if (!object.is_object()) {
        return named.error("it must be an object with 'hostname' and 'cpus'");
    }
    HVD_TRY_STATUS(named.text("hostname", facts.hostname, true));
    const auto where = file + ": " + facts.hostname;
    Fields fields(object, where);
    (void)fields.find("hostname");
    HVD_TRY_STATUS(fields.text("machine", facts.machine));
    HVD_TRY_STATUS(fields.cpus("cpus", facts.cpus, true));
    HVD_TRY_STATUS(fields.number("memory_bytes", facts.memory_bytes));
    HVD_TRY(facts.gpus, read_gpus(fields, where));
    if (std::string mask; fields.find("gpu_mask") != nullptr) {
        HVD_TRY_STATUS(fields.text("gpu_mask", mask));
        facts.gpu_mask = std::move(mask);
    }
    HVD_TRY_STATUS(fields.text("gpu_note", facts.gpu_note));
    HVD_TRY_STATUS(fields.number("free_port", facts.free_port));
    HVD_TRY_STATUS(fields.refuse_others());
    return facts;
}

}  // namespace

Result<std::vector<HostFacts>> parse_facts(std::string_view text, std::string_view file) {
    const std::string name(file);
    Json document;
    try {
        document = Json::parse(text);
    } catch (const Json::exception& exception) {  // this library reports by throwing
        return Error{Errc::invalid_argument, name + ": " + exception.what()};
    }
    if (!document.is_array() || document.empty()) {
        return Error{Errc::invalid_argument, name + ": there must be a list of hosts"};
    }
    std::vector<HostFacts> hosts;
    for (const auto& object : document) {
        HVD_TRY(auto facts, read_host(object, name, hosts.size()));
        hosts.push_back(std::move(facts));
    }
    return hosts;
}

Result<std::vector<HostFacts>> read_facts_file(const std::filesystem::path& path) {
    HVD_TRY(const auto text, read_file(path, kMaxFileBytes));
    return parse_facts(text, path.string());
}

Result<std::vector<PlanHost>> describe_hosts(const std::vector<Host>& wanted,
                                             const std::vector<HostFacts>& facts) {
    std::vector<PlanHost> described;
    const auto add = [&](const Host& host, const HostFacts& found) {
        described.push_back({.host = host, .starter = "ssh", .facts = found});
    };
    for (const auto& host : facts) {
        if (wanted.empty()) {
            add({.name = host.hostname}, host);
        }
    }
    for (const auto& host : wanted) {
        const auto entry = std::ranges::find(facts, host.name, &HostFacts::hostname);
        if (entry == facts.end()) {
            std::vector<std::string> names;
            std::ranges::transform(facts, std::back_inserter(names), &HostFacts::hostname);
            return Error{
                Errc::invalid_argument,
                "host '" + host.name + "' is not among the described ones: " + join(names, ", ")};
        }
        add(host, *entry);
    }
    if (described.size() == 1) {
        described.front().starter = kLocalStarter;
    }
    return described;
}

}  // namespace hvd::launch
