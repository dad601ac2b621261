// `node scripts/test-conditions.mjs`: runs the test command repeatedly under conditions as on other people's machines, and prints a table of the
// outcomes. Each run has its own copy of the last commit, and its log is kept. --help says more.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { CONDITIONS, conditionNamed } from './test-conditions/conditions.mjs'
import { ending, startLoops } from './test-conditions/processes.mjs'
import { printTable, runLine, skipLine } from './test-conditions/report.mjs'
import { runTests } from './test-conditions/run.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

const HELP = `node scripts/test-conditions.mjs [--times N] [--command 'npm test'] [--logs DIR] [CONDITION …]

Runs the test command on copies of the last commit, each of them with packages of its own, and prints
how it ended, its wall time, and its CPU time with that of all processes that it started and waited for.
Changes that are not committed are not tested. Where it can be, the condition itself is checked before each run.
Tests whose parts are missing are skipped, unless CI is set.

${CONDITIONS.map(({ name, what, isExtra }) => `  ${name.padEnd(14)}${what}${isExtra ? ' (only if named)' : ''}`).join('\n')}

  --times N      runs each condition N times in a row (1)
  --command C    what is run, by sh, at the top of the copy ('npm test')
  --logs DIR     where logs are kept (a new temporary folder)

For example: node scripts/test-conditions.mjs --command 'npm run test:full' busy2
Exit status: 0 if every run passed, 1 if one failed, 2 if nothing could be run. A skipped condition does not count as a failure.`

const { values: options, positionals } = parsedArguments()
if (options.help) {
  console.log(HELP)
  process.exit(0)
}
const times = Number(options.times)
if (!Number.isInteger(times) || times < 1) refuse(`--times: expected a number of runs from 1, got ${options.times}`)
const names = positionals.length > 0 ? positionals : CONDITIONS.filter(({ isExtra }) => !isExtra).map(({ name }) => name)
const conditions = names.map((name) => conditionNamed(name) ?? refuse(`${name}: no such condition; --help lists them`))

const logs = options.logs ?? mkdtempSync(join(tmpdir(), 'edge-test-logs-'))
mkdirSync(logs, { recursive: true })
const work = mkdtempSync(join(tmpdir(), 'edge-copies-'))
chmodSync(work, 0o755) // other users must be able to enter it
ending(() => rmSync(work, { recursive: true, force: true, maxRetries: 3 }))

const changes = git('status', '--porcelain')
if (changes !== '') console.log('NOTE: there are changes that are not committed. They are not tested.')
console.log(`${git('log', '-1', '--format=%h %s')}\n${options.command}, ${times === 1 ? 'once' : `${times} times`} each; logs: ${logs}\n`)
const original = freshCopy()

const runs = []
for (const [index, condition] of conditions.entries()) {
  const place = { work, original, logs, prefix: `${index + 1}-${condition.name}` }
  const given = await condition.arrange(place)
  if (given.skip !== undefined) {
    runs.push({ condition: condition.name, skip: given.skip })
    console.log(skipLine(runs.at(-1)))
  } else {
    for (let time = 1; time <= times; time++) await runOnce(condition.name, given, { ...place, prefix: `${place.prefix}-${time}` })
  }
  given.end?.()
}
printTable(runs)
const ended = runs.filter(({ isPassed }) => isPassed !== undefined)
if (ended.length === 0) process.exitCode = 2
else process.exitCode = ended.every(({ isPassed }) => isPassed) ? 0 : 1

/** Runs one copy for most conditions, or several at once. */
async function runOnce(name, given, place) {
  const stopLoops = startLoops(given.loops ?? 0, given.wrapper)
  const copies = given.copies ?? 1
  const started = Array.from({ length: copies }, async (_, copy) => {
    const prefix = copies > 1 ? `${place.prefix}${'ab'[copy]}` : place.prefix
    const run = { condition: name, ...(await runTests(options.command, given, { ...place, prefix })) }
    runs.push(run)
    console.log(runLine(run))
  })
  await Promise.all(started)
  stopLoops()
}

/** Makes the copy that `git clone` and `npm ci` give a new contributor. */
function freshCopy() {
  const copy = join(work, 'original')
  git('clone', '--quiet', '--no-hardlinks', ROOT, copy)
  try {
    execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: copy, stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    refuse(`npm ci failed:\n${error.stdout}${error.stderr}`)
  }
  return copy
}

function git(...args) {
  return execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim()
}

function parsedArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        times: { type: 'string', default: '1' },
        command: { type: 'string', default: 'npm test' },
        logs: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    })
  } catch (error) {
    return refuse(error.message)
  }
}

function refuse(message) {
  console.error(message)
  process.exit(2)
}
