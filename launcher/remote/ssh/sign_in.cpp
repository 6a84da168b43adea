// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/sign_in.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/remote/ssh/encoding.hpp"
#include "launcher/remote/ssh/key_file.hpp"

#include <algorithm>
#include <utility>

#include <unistd.h>

namespace hvd::launch::ssh {
namespace {

constexpr std::size_t kMaxKeyFile = std::size_t{64} << 10;

void add_to(std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
}

bool exists(const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
}

/// The key in the public half of a pair: "type base64 comment".
std::string public_blob(const std::string& path) {
    const auto text = read_file(path + ".pub", kMaxKeyFile);
    if (!text) {
        return {};
    }
    const auto begin = text->find(' ');
    const auto end = text->find_first_of(" \n", begin == std::string::npos ? 0 : begin + 1);
    return begin == std::string::npos
               ? std::string()
               : decode_base64(std::string_view(*text).substr(begin, end - begin)).value_or("");
}

}  // namespace

KeyAgent* KeyRing::find(const std::string& path) {
    const auto found = agents_.find(path);
    if (found != agents_.end()) {
        return found->second.get();
    }
    auto agent = KeyAgent::connect(io_, path);
    return agents_.emplace(path, agent ? std::move(agent).value() : nullptr).first->second.get();
}

SignIn::SignIn(const SshTarget& target, std::shared_ptr<KeyRing> keys, std::function<void()> wake)
    : target_(target), keys_(std::move(keys)), wake_(std::move(wake)) {
    auto* agent = target_.agent_socket ? keys_->find(*target_.agent_socket) : nullptr;
    if (agent == nullptr) {
        collect({});
        return;
    }
    agent->list([this, alive = std::weak_ptr(alive_)](const Result<KeyAgent::Blobs>& held) {
        if (!alive.expired()) {
            collect(held ? *held : KeyAgent::Blobs{});
            wake_();
        }
    });
}

void SignIn::collect(const KeyAgent::Blobs& held) {
    is_collected_ = true;
    std::vector<Attempt> files;
    std::vector<Attempt> named;
    std::vector<std::string> names;  // blobs of keys that are files and in the agent
    for (const auto& path : target_.key_files) {
        const auto text = read_file(path, kMaxKeyFile);
        auto key = text ? inspect_key_file(*text) : KeyFile{};
        const auto written = public_blob(path);
        const bool has_public_half = !written.empty() && written == key.public_blob;
        if (key.public_blob.empty()) {
            key.public_blob = written;
        }
        note_certificate(path);
        const bool is_held = std::ranges::find(held, key.public_blob) != held.end();
        if (is_held && is_usable_key_type(key_type(key.public_blob))) {
            names.push_back(key.public_blob);
            named.push_back({.label = path + " (agent)", .blob = key.public_blob, .path = {}});
        } else if (!text) {
            if (exists(path)) {
                add_to(unusable_keys_, text.error().message);
            }
        } else if (key.kind == KeyFile::Kind::usable) {
            files.push_back({.label = path,
                             .blob = {},
                             .path = path,
                             .public_path = has_public_half ? path + ".pub" : std::string()});
        } else {
            add_to(unusable_keys_, path + (key.kind == KeyFile::Kind::encrypted
                                               ? " (needs a passphrase; no agent has it)"
                                               : " (of a type for ssh alone)"));
        }
    }
    attempts_ = std::move(named);
    for (const auto& blob : held) {
        if (std::ranges::find(names, blob) != names.end() || target_.identities_only) {
            continue;
        }
        const auto type = key_type(blob);
        const auto label = "the agent's " + type + " " + fingerprint(blob);
        if (is_usable_key_type(type)) {
            attempts_.push_back({.label = label, .blob = blob, .path = {}});
        } else {
            add_to(unusable_keys_, label);
        }
    }
    std::ranges::move(files, std::back_inserter(attempts_));
}

/// ssh finds it by its name.
void SignIn::note_certificate(const std::string& key_file) {
    const auto path = key_file + "-cert.pub";
    if (exists(path)) {
        add_to(unusable_keys_, path);
    }
}

Step SignIn::step(SshSession& session) {
    if (!is_collected_) {
        return Step::again;
    }
    while (next_ < attempts_.size()) {
        const auto& current = attempts_[next_];
        const auto result = attempt(session, current);
        if (result != Step::failed) {
            return result;
        }
        const int code = session.last_code();
        add_to(refused_, current.label);
        const auto& farewell = session.farewell();
        if (farewell ||
            (code != LIBSSH2_ERROR_AUTHENTICATION_FAILED &&
             code != LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED && code != LIBSSH2_ERROR_FILE)) {
            // ssh tries certificates first, and so may be let in before it has tried too much.
            const bool is_final = unusable_keys_.empty() && target_.other_methods.empty();
            error_ = Error{is_final ? Errc::unavailable : Errc::unsupported,
                           "authentication as " + target_.user + ": " +
                               (farewell ? told_by(*farewell) : session.last_error()) + "; tried " +
                               refused_};
            return Step::failed;
        }
        if (code == LIBSSH2_ERROR_FILE) {
            add_to(unusable_keys_, current.label + " (" + session.last_error() + ")");
        }
        signing_ = Signing::idle;
        ++next_;
    }
    return give_up(session);
}

/// sshd lets one try as many keys as MaxAuthTries says.
std::string SignIn::told_by(const std::string& farewell) const {
    const auto keys = next_ == 0 ? "1 key" : std::to_string(next_ + 1) + " keys";
    return "the host hung up after " + keys + " (" + farewell +
           "); name the right one with -i KEY, or in ~/.ssh/config with IdentityFile and "
           "IdentitiesOnly yes";
}

Step SignIn::attempt(SshSession& session, const Attempt& attempt) {
    if (!attempt.path.empty()) {
        return session.sign_in_with_file(target_.user, attempt.path, attempt.public_path);
    }
    return session.sign_in(target_.user, attempt.blob, [this, &attempt](std::string_view text) {
        return sign(attempt.blob, text);
    });
}

std::optional<Result<std::string>> SignIn::sign(const std::string& blob, std::string_view text) {
    if (signing_ == Signing::answered) {
        return signature_;
    }
    if (signing_ == Signing::idle) {
        signing_ = Signing::asked;
        keys_->find(*target_.agent_socket)
            ->sign(blob, std::string(text),
                   [this, alive = std::weak_ptr(alive_)](Result<std::string> signature) {
                       if (!alive.expired()) {
                           signature_ = std::move(signature);
                           signing_ = Signing::answered;
                           wake_();
                       }
                   });
    }
    return std::nullopt;
}

Step SignIn::give_up(SshSession& session) {
    const auto as = "authentication as " + target_.user + ": ";
    if (!unusable_keys_.empty() || attempts_.empty()) {
        error_ = Error{Errc::unsupported,
                       as + (unusable_keys_.empty() ? "there is no key file and no agent's key"
                                                    : "only ssh can use " + unusable_keys_)};
        return Step::failed;
    }
    std::string methods;
    if (session.list_methods(target_.user, methods) == Step::again) {
        return Step::again;
    }
    const auto accepted = split(methods, ',');
    const auto accepts = [&](std::string_view method) {
        return std::ranges::find(accepted, method) != accepted.end();
    };
    const auto refused = as + "the host refused " + refused_;
    const auto other = std::ranges::find_if(target_.other_methods, accepts);
    if (other != target_.other_methods.end()) {
        error_ = Error{Errc::unsupported, refused + ", and only ssh can try " + *other};
        return Step::failed;
    }
    const bool may_ask = accepts("password") || accepts("keyboard-interactive");
    error_ = Error{Errc::unavailable,
                   refused + (methods.empty() ? "" : "; it accepts " + methods) +
                       "; see its ~/.ssh/authorized_keys, or name a key with -i" +
                       (may_ask ? ", or where it asks for a password or a code, first open a "
                                  "connection that ssh shares (ControlPath)"
                                : "")};
    return Step::failed;
}

}  // namespace hvd::launch::ssh
