// `npm run soak`: reads the flags and runs the scenarios, *.soak.ts, one after the other, in vitest's own runner.
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createVitest } from 'vitest/node'
import { Failures } from './failures.mjs'

const HELP = `npm run soak -- [--minutes N] [--seed S] [--only NAME]

Random mixed load with faults on the built program; afterwards every counter must match what clients were granted.

  --minutes N   about how long, over all scenarios together; each runs three rounds at least [5]
  --seed S      a whole number; the same seed brings the same random choices [a random one]
  --only NAME   one scenario, which gets all the time: ${scenarioNames().join(', ')}
  --help        this text
`
/** Below this a scenario has no time for its first rounds. */
const MIN_MINUTES = 0.1
const MAX_MINUTES = 100_000
const MAX_SEED = 2 ** 32 - 1

process.exitCode = await main()

async function main() {
  const flags = readFlags()
  if (flags.isHelp) {
    process.stdout.write(HELP)
    return 0
  }
  if (flags.problems.length > 0) {
    process.stderr.write(`${flags.problems.join('\n')}\nnpm run soak -- --help lists the options.\n`)
    return 1
  }
  return runScenarios(flags)
}

function readFlags() {
  const problems = []
  const read = (name, text, least, most, isWhole) => {
    const value = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN
    if (value >= least && value <= most && !(isWhole && !Number.isInteger(value))) return value
    problems.push(`--${name}: expected a ${isWhole ? 'whole ' : ''}number from ${least} to ${most}, got ${JSON.stringify(text)}`)
    return least
  }
  try {
    const options = { minutes: { type: 'string' }, seed: { type: 'string' }, only: { type: 'string' }, help: { type: 'boolean' } }
    const { values } = parseArgs({ options })
    const names = scenarioNames()
    if (values.only !== undefined && !names.includes(values.only)) {
      problems.push(`--only: expected one of ${names.join(', ')}, got ${JSON.stringify(values.only)}`)
    }
    const minutes = read('minutes', values.minutes ?? '5', MIN_MINUTES, MAX_MINUTES, false)
    const seed = read('seed', values.seed ?? String(Math.floor(Math.random() * MAX_SEED)), 0, MAX_SEED, true)
    return { isHelp: values.help === true, problems, minutes, seed, names: values.only === undefined ? names : [values.only] }
  } catch (error) {
    return { isHelp: false, problems: [error.message] }
  }
}

/** Returns the exit status. */
async function runScenarios({ minutes, seed, names }) {
  const again = `npm run soak -- --minutes ${minutes} --seed ${seed}${names.length === 1 ? ` --only ${names[0]}` : ''}`
  process.stdout.write(`soak: about ${minutes} min, seed ${seed}\n`)
  process.env.EDGE_SOAK_SCENARIO_MS = String(Math.round((minutes * 60_000) / names.length))
  process.env.EDGE_SOAK_SEED = String(seed)
  const vitest = await createVitest('test', {
    config: false,
    watch: false,
    root: fileURLToPath(new URL('../..', import.meta.url)),
    include: names.map((name) => `test/soak/${name}.soak.ts`),
    // In this process: a Ctrl-C, which the terminal sends to all, must not end the one that clears up.
    pool: 'threads',
    fileParallelism: false,
    reporters: [new Failures()],
  })
  let isInterrupted = false
  // Vitest's own would leave at once.
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.removeAllListeners(signal)
    process.on(signal, () => {
      if (isInterrupted) process.exit(130)
      isInterrupted = true
      process.stderr.write('soak: interrupted, clearing up\n')
      void vitest.cancelCurrentRun('keyboard-input')
    })
  }
  const { testModules, unhandledErrors } = await vitest.start()
  const hasPassed = testModules.every((module) => module.ok()) && unhandledErrors.length === 0
  await vitest.close()
  if (isInterrupted) return 130
  const skipped = testModules.flatMap((module) => [...module.children.allTests('skipped')]).map(({ name }) => name)
  if (skipped.length > 0) process.stdout.write(`soak: SKIPPED ${skipped.join(', ')}\n`)
  process.stdout.write(hasPassed ? 'soak: passed\n' : `soak: FAILED. Once more: ${again}\n`)
  return hasPassed ? 0 : 1
}

function scenarioNames() {
  const files = readdirSync(new URL('.', import.meta.url))
  return files.filter((file) => file.endsWith('.soak.ts')).map((file) => file.slice(0, -'.soak.ts'.length))
}
