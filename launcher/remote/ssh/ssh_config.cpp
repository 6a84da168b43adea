// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/ssh_config.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace hvd::launch::ssh {
namespace {

constexpr int kMaxDepth = 16;  // of Include, as in ssh

/// Keywords that change nothing for us: we forward nothing, ask nothing, log nothing; all variables
/// travel by themselves.
constexpr std::array<std::string_view, 37> kWithoutEffect{"addkeystoagent",
                                                          "batchmode",
                                                          "challengeresponseauthentication",
                                                          "checkhostip",
                                                          "clearallforwardings",
                                                          "compression",
                                                          "connectionattempts",
                                                          "controlmaster",
                                                          "controlpersist",
                                                          "dynamicforward",
                                                          "enablesshkeysign",
                                                          "escapechar",
                                                          "exitonforwardfailure",
                                                          "fingerprinthash",
                                                          "forwardx11",
                                                          "forwardx11timeout",
                                                          "forwardx11trusted",
                                                          "gatewayports",
                                                          "gssapidelegatecredentials",
                                                          "hashknownhosts",
                                                          "ignoreunknown",
                                                          "kbdinteractiveauthentication",
                                                          "localforward",
                                                          "loglevel",
                                                          "numberofpasswordprompts",
                                                          "passwordauthentication",
                                                          "permitlocalcommand",
                                                          "remoteforward",
                                                          "requesttty",
                                                          "sendenv",
                                                          "serveralivecountmax",
                                                          "serveraliveinterval",
                                                          "streamlocalbindunlink",
                                                          "tcpkeepalive",
                                                          "updatehostkeys",
                                                          "visualhostkey",
                                                          "xauthlocation"};

/// Keywords whose default we follow; another value is an unsupported.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOnlyAs{
    {{"canonicalizehostname", "no"},
     {"forwardagent", "no"},
     {"proxycommand", "none"},
     {"proxyjump", "none"},
     {"pubkeyauthentication", "yes"},
     {"verifyhostkeydns", "no"}}};

/// The words of a line: keyword, then values. `=` may stand after the keyword; quotes hold blanks.
std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    std::string word;
    bool is_quoted = false;
    bool has_word = false;
    const auto finish = [&] {
        if (std::exchange(has_word, false)) {
            words.push_back(std::exchange(word, {}));
        }
    };
    for (const char c : line) {
        if (c == '"') {
            is_quoted = !is_quoted;
            has_word = true;
        } else if (!is_quoted && (c == ' ' || c == '\t' || (c == '=' && words.empty()))) {
            finish();
        } else if (!is_quoted && c == '#' && !has_word) {
            break;
        } else if (c == '=' && !is_quoted && words.size() == 1 && !has_word) {
            continue;  // "Port = 22"
        } else {
            word += c;
            has_word = true;
        }
    }
    finish();
    return words;
}

bool matches_list(std::string_view text, const std::vector<std::string_view>& patterns) {
    bool found = false;
    for (auto pattern : patterns) {
        const bool is_negated = pattern.starts_with('!');
        pattern.remove_prefix(is_negated ? 1 : 0);
        if (matches_glob(text, pattern)) {
            if (is_negated) {
                return false;
            }
            found = true;
        }
    }
    return found;
}

template <class T>
void set_once(std::optional<T>& field, T value) {
    if (!field) {
        field = std::move(value);
    }
}

class Reader {
public:
    Reader(const ConfigQuery& query, SshConfig& config) : query_(query), config_(config) {}

    void read(const ConfigFile& file, int depth) {
        bool applies = true;
        std::size_t number = 0;
        for (const auto raw : split(file.text, '\n')) {
            ++number;
            const auto words = words_of(trim(raw));
            if (words.empty()) {
                continue;
            }
            const auto keyword = to_lower(words.front());
            const std::vector<std::string> values(words.begin() + 1, words.end());
            place_ = words.front() + " in " + file.path + ", line " + std::to_string(number);
            if (keyword == "host") {
                applies = matches_list(query_.host, {values.begin(), values.end()});
            } else if (keyword == "match") {
                applies = matches(values);
            } else if (!applies) {
                continue;
            } else if (keyword == "include") {
                include(values, file.path, depth);
            } else {
                apply(keyword, values);
            }
        }
    }

private:
    void obstruct() { set_once(config_.unsupported, place_); }

    void include(const std::vector<std::string>& patterns, const std::string& from, int depth) {
        if (depth == kMaxDepth) {
            obstruct();
            return;
        }
        for (const auto& pattern : patterns) {
            if (pattern.find("${") != std::string::npos) {
                obstruct();  // newer versions of ssh replace variables here too
                continue;
            }
            for (const auto& file : query_.include(pattern, from)) {
                read(file, depth + 1);
            }
        }
    }

    bool matches(const std::vector<std::string>& criteria) {
        bool result = true;
        for (std::size_t at = 0; at < criteria.size(); ++at) {
            auto name = to_lower(criteria[at]);
            const bool is_negated = name.starts_with('!');
            name.erase(0, is_negated ? 1 : 0);
            if (name == "all") {
                continue;
            }
            const auto subject = subject_of(name);
            if (!subject || at + 1 == criteria.size()) {
                // exec, canonical, final, tagged, ...: only ssh knows, and only if the rest holds.
                if (result) {
                    obstruct();
                }
                return false;
            }
            ++at;
            result = result && (matches_list(*subject, split(criteria[at], ',')) != is_negated);
        }
        return result;
    }

    [[nodiscard]] std::optional<std::string> subject_of(std::string_view criterion) const {
        if (criterion == "host") {
            return config_.hostname.value_or(query_.host);
        }
        if (criterion == "originalhost") {
            return query_.host;
        }
        if (criterion == "user") {
            return query_.user ? *query_.user : config_.user.value_or(query_.local_user);
        }
        if (criterion == "localuser") {
            return query_.local_user;
        }
        return std::nullopt;
    }

    void apply(const std::string& keyword, const std::vector<std::string>& values) {
        if (std::ranges::find(kWithoutEffect, keyword) != kWithoutEffect.end()) {
            return;
        }
        if (values.empty()) {
            obstruct();  // malformed: ssh has the words for it
            return;
        }
        const auto& value = values.front();
        const auto only =
            std::ranges::find(kOnlyAs, keyword, [](const auto& e) { return e.first; });
        if (only != kOnlyAs.end()) {
            if (to_lower(value) != only->second) {
                obstruct();
            }
        } else if (keyword == "identityfile") {
            config_.identity_files.push_back(value);
        } else if (keyword == "userknownhostsfile") {
            set_list(config_.user_known_hosts, values);
        } else if (keyword == "globalknownhostsfile") {
            set_list(config_.global_known_hosts, values);
        } else if (!apply_number(keyword, value) && !apply_text(keyword, value)) {
            obstruct();
        }
    }

    static void set_list(std::vector<std::string>& list, const std::vector<std::string>& values) {
        if (list.empty()) {
            list = values;
        }
    }

    bool apply_number(std::string_view keyword, const std::string& value) {
        constexpr int kMaxPort = 65'535;
        const auto number = parse_number<int>(value);
        if (keyword == "port" && number && *number > 0 && *number <= kMaxPort) {
            set_once(config_.port, *number);
            return true;
        }
        if (keyword == "connecttimeout" && number && *number > 0) {
            set_once(config_.connect_timeout_s, *number);
            return true;
        }
        return false;
    }

    bool apply_text(std::string_view keyword, const std::string& value) {
        if (keyword == "identitiesonly" && (to_lower(value) == "yes" || to_lower(value) == "no")) {
            set_once(config_.identities_only, to_lower(value) == "yes");
            return true;
        }
        const std::array<std::pair<std::string_view, std::optional<std::string>*>, 10> fields{
            {{"hostname", &config_.hostname},
             {"user", &config_.user},
             {"identityagent", &config_.identity_agent},
             {"stricthostkeychecking", &config_.strict_host_key_checking},
             {"hostkeyalias", &config_.host_key_alias},
             {"addressfamily", &config_.address_family},
             {"controlpath", &config_.control_path},
             {"gssapiauthentication", &config_.gssapi_authentication},
             {"hostbasedauthentication", &config_.hostbased_authentication},
             {"preferredauthentications", &config_.preferred_authentications}}};
        const auto field =
            std::ranges::find(fields, keyword, [](const auto& e) { return e.first; });
        if (field == fields.end()) {
            return false;
        }
        const bool is_word =
            keyword.ends_with("authentication") || keyword == "stricthostkeychecking";
        set_once(*field->second, is_word ? to_lower(value) : value);
        return true;
    }

    const ConfigQuery& query_;  // for the length of one call of read_ssh_config
    SshConfig& config_;
    std::string place_;
};

}  // namespace

void read_ssh_config(const ConfigFile& file, const ConfigQuery& query, SshConfig& config) {
    Reader(query, config).read(file, 0);
}

std::optional<std::string> expand_tokens(std::string_view text, const ConfigTokens& tokens) {
    std::string result;
    if (text == "~" || text.starts_with("~/")) {
        result = tokens.home;
        text.remove_prefix(1);
    }
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (tokens.environment != nullptr && text.substr(at).starts_with("${")) {
            const auto end = std::min(text.find('}', at), text.size());
            const auto value = find(*tokens.environment, text.substr(at + 2, end - at - 2));
            if (!value || end == text.size()) {
                return std::nullopt;
            }
            result += *value;
            at = end;
            continue;
        }
        if (text[at] != '%') {
            result += text[at];
            continue;
        }
        ++at;
        switch (at < text.size() ? text[at] : '\0') {
            case '%': result += '%'; break;
            case 'h': result += tokens.host; break;
            case 'n': result += tokens.original; break;
            case 'p': result += tokens.port; break;
            case 'r': result += tokens.user; break;
            case 'u': result += tokens.local; break;
            case 'd': result += tokens.home; break;
            default: return std::nullopt;
        }
    }
    return result;
}

}  // namespace hvd::launch::ssh
