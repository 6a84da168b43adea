// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/agent_file.hpp"

#include <cerrno>
#include <vector>

#include <unistd.h>

namespace hvd::launch {
namespace {

[[nodiscard]] std::vector<std::string> candidates(const StarterContext& context) {
    if (context.agent) {
        return {context.agent->string()};
    }
    const auto folder = context.program.parent_path();
    return {(folder.parent_path() / "libexec" / "horovod" / "hvd-agent").string(),
            (folder / "hvd-agent").string()};
}

}  // namespace

Result<std::string> find_agent_file(const StarterContext& context) {
    std::string tried;
    for (const auto& path : candidates(context)) {
        if (::access(path.c_str(), X_OK) == 0) {
            return path;
        }
        tried += (tried.empty() ? "" : "; ") + system_error(path, errno).message;
    }
    return Error{
        Errc::unavailable,
        tried + (context.agent ? "; HOROVOD_AGENT names this file: correct it or unset it"
                               : "; reinstall horovod, or name the file in HOROVOD_AGENT")};
}

}  // namespace hvd::launch
