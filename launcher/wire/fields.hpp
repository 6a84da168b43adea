// SPDX-License-Identifier: Apache-2.0
//
// The fields of every value that crosses the wire, in their order on it: see
// collectives/base/fields.hpp.
#pragma once

#include "collectives/base/fields.hpp"
#include "launcher/wire/messages.hpp"

namespace hvd::launch {

// ---- what is inside messages ----

constexpr OutputStream last_of(OutputStream /*unused*/) {
    return OutputStream::err;
}

void fields(auto& io, Is<Gpu> auto& gpu) {
    io(gpu.index, gpu.uuid, gpu.name, gpu.memory_bytes, gpu.cpus, gpu.parent);
}

void fields(auto& io, Is<HostFacts> auto& facts) {
    io(facts.gpu_driver.version, facts.gpu_driver.cuda, facts.gpu_driver.link);
    io(facts.hostname, facts.machine, facts.cpus, facts.memory_bytes, facts.gpus, facts.gpu_mask);
    io(facts.gpu_note, facts.free_port, facts.mark);
}

void fields(auto& io, Is<ProcessSpec> auto& spec) {
    io(spec.rank, spec.local_rank, spec.local_size, spec.cross_rank, spec.cross_size);
    io(spec.gpus, spec.cpus, spec.env, spec.cwd, spec.argv);
}

void fields(auto& io, Is<JobPlan> auto& job) {
    io(job.id, job.env, job.ranks_env, job.cwd, job.argv, job.is_env_clean);
}

void fields(auto& io, Is<HostPlan> auto& plan) {
    io(plan.host, plan.starter, plan.slots, plan.agent_socket, plan.env, plan.ranks_env);
    io(plan.ranks, plan.inherits_env, plan.stdin_rank, plan.stdin_all, plan.grace);
    io(plan.launchers, plan.shim_socket, plan.has_terminal);
}

void fields(auto& io, Is<Survivor> auto& survivor) {
    io(survivor.pid, survivor.state, survivor.wchan);
}

namespace wire {

void fields(auto& io, Is<Problem> auto& problem) {
    io(problem.exit_code, problem.text);
}

// ---- agent → launcher ----

void fields(auto& io, Is<Hello> auto& hello) {
    io(hello.version, hello.build_id, hello.pid);
}

void fields(auto& io, Is<Facts> auto& facts) {
    io(facts.facts);
}

void fields(auto& io, Is<Started> auto& started) {
    io(started.rank, started.pid, started.time_ns);
}

void fields(auto& io, Is<StartFailed> auto& failed) {
    io(failed.rank, failed.step, failed.error_number, failed.why_not_executed, failed.time_ns);
}

void fields(auto& io, Is<Output> auto& output) {
    io(output.rank, output.stream, output.time_ns, output.bytes);
}

void fields(auto& io, Is<RankReport> auto& report) {
    io(report.rank, report.time_ns);
    io(report.report.kind, report.report.peer, report.report.text);
}

void fields(auto& io, Is<Exited> auto& exited) {
    io(exited.rank, exited.time_ns, exited.wait_status, exited.is_killed_by_launcher, exited.oom);
    io(exited.max_rss_bytes, exited.is_unseen);
}

void fields(auto& io, Is<Put> auto& put) {
    io(put.rank, put.request, put.key, put.value);
}

void fields(auto& io, Is<Get> auto& get) {
    io(get.rank, get.request, get.key);
}

void fields(auto& io, Is<Note> auto& note) {
    io(note.text);
}

void fields(auto& io, Is<AllGone> auto& gone) {
    io(gone.survivors);
}

void fields(auto& io, Is<InputTaken> auto& taken) {
    io(taken.bytes);
}

void fields(auto& io, Is<Pong> auto& pong) {
    io(pong.asked_ns, pong.heard_ns, pong.answered_ns);
}

void fields(auto& io, Is<Checked> auto& checked) {
    io(checked.problems, checked.nccl.version, checked.nccl.file, checked.wall_ns);
}

void fields(auto& io, Is<Found> auto& found) {
    io(found.marks);
}

void fields(auto& io, Is<LinkOpen> auto& link) {
    io(link.id, link.record, link.error);
}

void fields(auto& io, Is<LinkMeasured> auto& link) {
    io(link.id, link.address, link.round_trip_ns, link.bytes_per_second, link.error);
}

void fields(auto& io, Is<PortPicked> auto& picked) {
    io(picked.port, picked.taken);
}

void fields(auto& io, Is<StepSignal> auto& given) {
    io(given.signal);
}

void fields(auto& io, Is<RankActivity> auto& activity) {
    io(activity.rank, activity.state, activity.wait_channel, activity.cpu_ms);
}

void fields(auto& io, Is<Leaving> auto& leaving) {
    io(leaving.time_ns, leaving.signal, leaving.why);
}

// ---- launcher → agent ----

void fields(auto& io, Is<Start> auto& start) {
    io(start.job, start.plan, start.output_window);
}

void fields(auto& io, Is<Signal> auto& signal) {
    io(signal.number);
}

void fields(auto& io, Is<Stop> auto& stop) {
    io(stop.grace_ms);
}

void fields(auto& io, Is<Input> auto& input) {
    io(input.bytes);
}

void fields(auto& io, Is<Credit> auto& credit) {
    io(credit.bytes);
}

void fields(auto& io, Is<PutDone> auto& done) {
    io(done.rank, done.request, done.error);
}

void fields(auto& io, Is<GetValue> auto& value) {
    io(value.rank, value.request, value.value);
}

void fields(auto& io, Is<PeerLost> auto& lost) {
    io(lost.rank, lost.why);
}

void fields(auto& io, Is<Inspect> auto& question) {
    io(question.ranks);
}

void fields(auto& io, Is<Ping> auto& ping) {
    io(ping.asked_ns, ping.lease_ms);
}

void fields(auto& io, Is<Check> auto& check) {
    io(check.job, check.plan, check.np, check.is_examination);
}

void fields(auto& io, Is<Seek> auto& seek) {
    io(seek.marks);
}

void fields(auto& io, Is<PickPort> auto& wanted) {
    io(wanted.first, wanted.last);
}

void fields(auto& io, Is<OpenLink> auto& link) {
    io(link.id, link.secret, link.interfaces, link.ports);
}

void fields(auto& io, Is<MeasureLink> auto& link) {
    io(link.id, link.secret, link.interfaces, link.record);
}

void fields(auto& io, Is<CloseLink> auto& link) {
    io(link.id);
}

void fields(auto& io, Is<WindowSize> auto& size) {
    io(size.rows, size.columns);
}

void fields(auto& io, Is<Ended> auto& ended) {
    io(ended.exit_code, ended.text);
}

}  // namespace wire

}  // namespace hvd::launch
