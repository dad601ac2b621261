// `npm run watch`: whenever a file is saved, the tests that it touches, the nearest first; those that run the built program after a build.
// `npm run watch -- --near` leaves it at tests that import what has changed. A test that was saved runs itself, slow ones and campaigns, too.
import { spawn } from 'node:child_process'
import { readdirSync, statSync, watch } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createVitest } from 'vitest/node'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const WATCHED = ['assets', 'console', 'deploy', 'docs', 'examples', 'schema', 'scripts', 'src', 'test']
/** An editor may write a file in several steps, and several files at once. */
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
// Folder by folder: Node 20 loses files that an editor puts in the place of others where it watches all below a folder.
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
  // Reading a file may be told as well.
  if (!info?.isFile() || info.mtimeMs < startedMs || /[~#]$|\.sw.$/.test(file)) return
  changed.add(file)
  clearTimeout(timer)
  timer = setTimeout(onChange, SETTLE_MS)
}

function onChange() {
  if (isRunning) void vitest.cancelCurrentRun('keyboard-input')
  else void runTouched()
}

/** Until nothing has changed meanwhile. What a run that was cut short had to do is done with the next change. */
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

/** Nothing where something has changed since: it would be cut short. */
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
