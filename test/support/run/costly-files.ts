import type { Reporter, TestModule } from 'vitest/node'

/** So many times the median file's CPU time is worth a look. */
const FACTOR = 10
/** Files of which next to nothing was run would make every other one look costly. */
const MIN_FILES = 50

/**
 * A reporter of `npm test`: which files compute far more than the others, and so should do less or be marked as slow. It fails nothing.
 * With EDGE_TEST_CPU=all it lists every file.
 */
export default class CostlyFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const files = modules
      .flatMap((module) => ({ name: module.relativeModuleId, cpuMs: module.meta().cpuMs ?? 0 }))
      .filter(({ name }) => !name.endsWith('.slow.test.ts'))
      .sort((a, b) => b.cpuMs - a.cpuMs)
    if (files.length === 0 || (files.length < MIN_FILES && process.env['EDGE_TEST_CPU'] === undefined)) return
    const boundMs = FACTOR * files[Math.floor(files.length / 2)]!.cpuMs
    const costly = files.filter(({ cpuMs }) => cpuMs > boundMs)
    const listed = process.env['EDGE_TEST_CPU'] === 'all' ? files : costly
    const totalS = files.reduce((sum, { cpuMs }) => sum + cpuMs, 0) / 1000
    const title = `${totalS.toFixed(0)} s of CPU time in ${files.length} files; above ${FACTOR} times the median (${boundMs.toFixed(0)} ms): ${costly.length}`
    process.stdout.write(`\n${[title, ...listed.map(row)].join('\n')}\n`)
  }
}

function row({ name, cpuMs }: { name: string; cpuMs: number }): string {
  return `${(cpuMs / 1000).toFixed(2).padStart(8)} s  ${name}`
}
