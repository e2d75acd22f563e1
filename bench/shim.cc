/* Google Benchmark behind the C functions of bench.h: the only C++ file of the project.
 * May know: Google Benchmark.  Must not know: heed, the machine.
 * Nothing here may throw: a failed allocation ends the program. */
#include "bench.h"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

static benchmark::State &state_of(bench_state *state) noexcept
{
    return *reinterpret_cast<benchmark::State *>(state);
}

void bench_register(const char *name, bench_function function, void *argument)
{
    benchmark::RegisterBenchmark(name, [function, argument](benchmark::State &state) {
        function(reinterpret_cast<bench_state *>(&state), argument);
    })->Unit(benchmark::kMicrosecond);
}

int bench_next(bench_state *state, int64_t calls)
{
    return state_of(state).KeepRunningBatch(calls);
}

void bench_pause(bench_state *state)
{
    state_of(state).PauseTiming();
}

void bench_resume(bench_state *state)
{
    state_of(state).ResumeTiming();
}

void bench_counter(bench_state *state, const char *name, double value)
{
    state_of(state).counters[name] = value;
}

void bench_skip(bench_state *state, const char *reason)
{
    state_of(state).SkipWithError((std::string("skipped: ") + reason).c_str());
}

void bench_context(const char *name, const char *value)
{
    benchmark::AddCustomContext(name, value);
}

int bench_run(int argc, char **argv)
{
    /* One column a counter unless the caller says otherwise: the last argument wins. */
    char tabular[] = "--benchmark_counters_tabular=true";
    std::vector<char *> arguments = { argv[0], tabular };
    arguments.insert(arguments.end(), argv + 1, argv + argc);
    int count = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    benchmark::Initialize(&count, arguments.data());
    if (benchmark::ReportUnrecognizedArguments(count, arguments.data()))
        return 2;
    const size_t matched = benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return matched ? 0 : 2;
}
