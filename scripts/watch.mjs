// `npm run watch`: runs the tests that a saved file affects, the nearest first; those that run the built program follow after a build.
// `npm run watch -- --near` runs only tests that import what has changed. A saved test is always run itself, even a slow one or a campaign.
import { spawn } from 'node:child_process'
import { readdirSync, statSync, watch } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createVitest } from 'vitest/node'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const WATCHED = ['assets', 'console', 'deploy', 'docs', 'examples', 'schema', 'scripts', 'src', 'test']
/** An editor may write a file in several steps, or several files at once. */
const SETTLE_MS = 50
const NEAR = 1

const isNearOnly = process.argv.includes('--near')
const vitest = await createVitest('test', { root: ROOT, watch: false, passWithNoTests: true })
const { TestGraph } = await vitest.import(join(ROOT, 'test/support/run/touched-tests.ts'))
await vitest.standalone()
const project = vitest.getRootProject()
const quick = new Set((await vitest.globTestSpecifications()).map(({ moduleId }) => moduleId))

const changed = new Set()
const startedMs = Date.now()
let isBuilt = true
let isRunning = false
let timer
// Each folder is watched by itself: with a recursive watch, Node 20 loses files that an editor replaces.
for (const folder of WATCHED.flatMap(foldersIn)) watch(join(ROOT, folder), (_, name) => onEvent(`${folder}/${name}`))
process.once('SIGINT', async () => {
  await vitest.close()
  process.exit()
})
say(`Waiting for a change in ${WATCHED.join(', ')}. Ctrl+C ends it.`)

function foldersIn(folder) {
  const inside = readdirSync(join(ROOT, folder), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  return [folder, ...inside.flatMap(({ name }) => foldersIn(`${folder}/${name}`))]
}

function onEvent(file) {
  const info = statSync(join(ROOT, file), { throwIfNoEntry: false })
  // Reading a file may cause an event, too.
  if (!info?.isFile() || info.mtimeMs < startedMs || /[~#]$|\.sw.$/.test(file)) return
  changed.add(file)
  clearTimeout(timer)
  timer = setTimeout(onChange, SETTLE_MS)
}

function onChange() {
  if (isRunning) void vitest.cancelCurrentRun('keyboard-input')
  else void runTouched()
}

/** Runs until nothing has changed meanwhile. If a run was cut short, its tests are run with those of the next change. */
async function runTouched() {
  isRunning = true
  let pending = []
  while (changed.size > 0) {
    const latest = [...changed]
    changed.clear()
    pending = [...new Set([...pending, ...latest])]
    isBuilt &&= !latest.some((file) => file.startsWith('src/') && !file.endsWith('.test.ts'))
    for (const file of latest) vitest.invalidateFile(join(ROOT, file))
    const touched = TestGraph.of(ROOT)
      .touchedBy(pending)
      .filter(({ file, distance }) => distance === 0 || (quick.has(join(ROOT, file)) && (!isNearOnly || distance <= NEAR)))
    const isFirst = ({ distance, needsBuild }) => distance <= NEAR && !needsBuild
    const [first, others] = [touched.filter(isFirst), touched.filter((test) => !isFirst(test))]
    say(`${pending.join(', ')}: ${first.length} test files, then ${others.length}`)
    const isGreen = (await run(first)) && (others.length === 0 || ((await isBuildGood()) && (await run(others))))
    if (changed.size > 0) continue
    pending = []
    say(isGreen ? 'All of them pass.' : 'Not all of them pass.')
  }
  isRunning = false
}

/** Runs nothing if something has changed since, because the run would be cut short. */
async function run(tests) {
  if (tests.length === 0 || changed.size > 0) return true
  const { testModules } = await vitest.runTestSpecifications(tests.map(({ file }) => project.createSpecification(join(ROOT, file))))
  return testModules.every((module) => module.ok())
}

async function isBuildGood() {
  if (isBuilt || changed.size > 0) return true
  say('Building.')
  const build = spawn('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: 'inherit' })
  isBuilt = await new Promise((resolve) => build.once('exit', (code) => resolve(code === 0)))
  return isBuilt
}

function say(text) {
  process.stdout.write(`\nwatch: ${text}\n`)
}
