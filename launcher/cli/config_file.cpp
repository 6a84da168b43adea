// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/config_file.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr std::string_view kController = "controller";

/// Makes errors with the place in the file.
class Reader {
public:
    explicit Reader(std::string_view file) : file_(file) {}

    Result<ConfigFile> read(const YAML::Node& root) {
        if (root.IsNull()) {
            return std::move(config_);
        }
        if (!root.IsMap()) {
            return error(root, "there must be sections, such as 'params:'");
        }
        HVD_TRY_STATUS(check_keys(root, ""));
        for (const auto& entry : root) {
            const auto name = entry.first.Scalar();
            HVD_TRY_STATUS(name == kController ? read_controller(entry.second)
                                               : read_section(name, entry.second));
        }
        return std::move(config_);
    }

    [[nodiscard]] Error error(const YAML::Mark& mark, std::string_view why) const {
        return {Errc::invalid_argument,
                file_ + ":" + std::to_string(mark.line + 1) + ": " + std::string(why)};
    }

private:
    [[nodiscard]] Error error(const YAML::Node& node, std::string_view why) const {
        return error(node.Mark(), why);
    }

    /// The names that may stand in `section`; the sections themselves for "".
    static std::vector<std::string_view> names_in(std::string_view section) {
        std::vector<std::string_view> names;
        if (section.empty()) {
            names.push_back(kController);
        }
        for (const auto* setting : settings()) {
            const auto dot = setting->setting.key.find('.');
            const auto parent = setting->setting.key.substr(0, dot);
            if (parent.empty()) {
                continue;
            }
            if (section.empty() && std::ranges::find(names, parent) == names.end()) {
                names.push_back(parent);
            } else if (section == parent) {
                names.push_back(setting->setting.key.substr(dot + 1));
            }
        }
        return names;
    }

    /// Every key of the map is known and stands there once.
    [[nodiscard]] Status check_keys(const YAML::Node& map, std::string_view section) const {
        const auto names = names_in(section);
        const auto where = section.empty() ? "'" : "' in '" + std::string(section) + "'";
        std::set<std::string> seen;
        for (const auto& entry : map) {
            const auto name = entry.first.IsScalar() ? entry.first.Scalar() : "";
            if (std::ranges::find(names, name) == names.end()) {
                const auto guess = nearest(name, names);
                return error(entry.first,
                             std::string("unknown key '").append(name).append(where) +
                                 (guess ? "; did you mean '" + std::string(*guess) + "'?"
                                        : "; known are " + list(names)));
            }
            if (!seen.insert(name).second) {
                return error(entry.first,
                             std::string("'").append(name).append(where) + " is written twice");
            }
        }
        return ok();
    }

    static std::string list(const std::vector<std::string_view>& names) {
        return join(std::vector<std::string>(names.begin(), names.end()), ", ");
    }

    [[nodiscard]] Status read_controller(const YAML::Node& node) {
        if (node.IsNull() || (node.IsScalar() && node.Scalar() == "gloo")) {
            return ok();  // native mode answers to this name
        }
        if (node.IsScalar() && node.Scalar() == "mpi") {
            config_.wants_mpi = true;
            return ok();
        }
        return error(node, "'controller' must be gloo or mpi");
    }

    Status read_section(const std::string& name, const YAML::Node& section) {
        if (section.IsNull()) {
            return ok();
        }
        if (!section.IsMap()) {
            return error(section, "'" + name + "' must have keys: " + list(names_in(name)));
        }
        HVD_TRY_STATUS(check_keys(section, name));
        for (const auto* setting : settings()) {
            const auto dot = setting->setting.key.find('.');
            if (setting->setting.key.substr(0, dot) != name) {
                continue;
            }
            const auto node = section[std::string(setting->setting.key.substr(dot + 1))];
            HVD_TRY_STATUS(read_value(*setting, node));
        }
        return ok();
    }

    Status read_value(const Flag& setting, const YAML::Node& node) {
        if (!node.IsDefined() || node.IsNull()) {
            return ok();
        }
        const auto key = "'" + std::string(setting.setting.key) + "' ";
        std::string text;
        if (setting.setting.kind == Kind::cpus && node.IsSequence()) {
            HVD_TRY(text, join_sequence(key, node));
        } else if (!node.IsScalar()) {
            return error(node, key + "must be a single value");
        } else if (setting.setting.kind == Kind::on || setting.setting.kind == Kind::off) {
            HVD_TRY(text, boolean(key, node));
        } else {
            text = node.Scalar();
        }
        auto value = export_value(setting, text);
        if (!value) {
            return error(node, key + value.error().message);
        }
        const auto [entry, is_new] = config_.settings.emplace(setting.setting.variable, *value);
        if (!is_new && entry->second != *value) {
            return error(node, key + "contradicts another key of its section");
        }
        return ok();
    }

    [[nodiscard]] Result<std::string> join_sequence(std::string_view key,
                                                    const YAML::Node& node) const {
        std::vector<std::string> parts;
        for (const auto& part : node) {
            if (!part.IsScalar()) {
                return error(part, std::string(key) + "must have numbers in its list");
            }
            parts.push_back(part.Scalar());
        }
        return join(parts, ",");
    }

    /// 0 and 1 count too: the original took them.
    [[nodiscard]] Result<std::string> boolean(std::string_view key, const YAML::Node& node) const {
        bool value = false;
        const bool is_quoted = node.Tag() == "!";
        if (!is_quoted && (node.Scalar() == "0" || node.Scalar() == "1")) {
            return node.Scalar();
        }
        if (is_quoted || !YAML::convert<bool>::decode(node, value)) {
            return error(node, std::string(key) + "is '" + node.Scalar() +
                                   "', but it must be true or false");
        }
        return std::string(value ? "1" : "0");
    }

    std::string file_;
    ConfigFile config_;
};

}  // namespace

Result<ConfigFile> parse_config(std::string_view text, std::string_view file) {
    Reader reader(file);
    try {
        return reader.read(YAML::Load(std::string(text)));
    } catch (const YAML::Exception& exception) {  // this library reports by throwing
        return reader.error(exception.mark, exception.msg);
    }
}

Result<ConfigFile> read_config_file(const std::filesystem::path& path) {
    HVD_TRY(const auto text, read_file(path, kMaxFileBytes));
    return parse_config(text, path.string());
}

}  // namespace hvd::launch
