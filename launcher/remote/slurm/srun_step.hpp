// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/command/child_streams.hpp"

#include <csignal>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// A running srun, from its start until everything that it started is gone. Thread: io.
class SrunStep final {
public:
    struct Spawn {
        std::vector<std::string> line;
        Environment environment;
        sigset_t signal_mask{};
        std::string token;  // a line of its standard input
        std::string agent;  // the file's bytes, for tasks that have none
    };
    struct Handlers {
        std::function<void(const std::string&)> on_line;  // of srun's own words
        std::function<void(const Error&)> on_end;         // it ended, with its words
    };

    /// Errors: unavailable, when there is no srun.
    [[nodiscard]] static Result<std::unique_ptr<SrunStep>> start(IoThread& io,
                                                                 Spawn spawn,
                                                                 Handlers handlers);

    /// Waits for its end as long as kTimeout, which an srun whose tasks have ended needs to tell
    /// Slurm; then has it end them, and kills it at last.
    ~SrunStep();
    SrunStep(const SrunStep&) = delete;
    SrunStep& operator=(const SrunStep&) = delete;

    /// All its tasks have connected: its end is expected, and no task requests the agent.
    void all_are_there();

    /// Its last words on standard error, in one line.
    [[nodiscard]] std::string words() const;

private:
    static constexpr int kTimeoutMs = 5'000;

    SrunStep(IoThread& io, Spawn spawn, Handlers handlers);
    void open(std::unique_ptr<ChildStreams> streams);
    void hear(std::string_view text);
    void hear_line(std::string line);
    void tell(const std::string& line);
    void hear_tasks(std::string_view text);
    void finish(int wait_status) const;
    [[nodiscard]] bool wait(int milliseconds);

    Spawn spawn_;
    Handlers handlers_;
    std::string open_line_;
    std::deque<std::string> last_lines_;
    std::size_t told_bytes_ = 0;
    std::string asked_;  // what tasks said, of which one line counts
    bool are_all_there_ = false;
    bool has_sent_ = false;
    bool is_over_ = false;
    Timer last_words_;
    std::unique_ptr<ChildStreams> streams_;
};

}  // namespace hvd::launch
