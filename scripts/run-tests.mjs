// `npm test` and `npm run test:full`: runs Vitest with these arguments. A file that fails in a whole run is run once more, alone, after the others.
// One that then passes is unsteady: a bug of that test or of the product, which is listed, and which fails the run from the third on.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const VITEST = fileURLToPath(new URL('../node_modules/vitest/vitest.mjs', import.meta.url))
/** So many unsteady files are no bad luck. */
const MAX_UNSTEADY = 2
/** With so many failures something is broken: to run all of them once more would only take long. */
const MAX_RERUN = 10

const args = process.argv.slice(2)
const config = args[0] === '--config' ? args.slice(0, 2) : []
const isWhole = args.length === config.length
const folder = mkdtempSync(join(tmpdir(), 'edge-tests-'))
let child
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child?.kill(signal))
try {
  process.exitCode = await runAll()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

async function runAll() {
  const { exitCode, failed } = await vitest(args, 'all')
  // Code 1 with failed files is about these; what a run left behind and errors outside of tests have no file.
  if (exitCode !== 1 || !isWhole || failed.length === 0 || failed.length > MAX_RERUN) return exitCode
  const again = []
  for (const [i, { project, file, why }] of failed.entries()) {
    console.log(`\nOnce more, alone (${i + 1} of ${failed.length}): ${file}`)
    const { exitCode } = await vitest([...config, ...(project === '' ? [] : ['--project', project]), file], String(i))
    again.push({ file, why, isUnsteady: exitCode === 0 })
  }
  const unsteady = again.filter(({ isUnsteady }) => isUnsteady)
  for (const { file, why, isUnsteady } of again) console.log(`${isUnsteady ? 'UNSTEADY' : 'FAILED TWICE'}: ${file}${why.join(';')}`)
  if (unsteady.length > 0)
    console.log(`Unsteady files failed among the others and passed alone. Each is a bug to be mended: test/README.md.`)
  return unsteady.length === again.length && unsteady.length <= MAX_UNSTEADY ? 0 : 1
}

/** Resolves when that run has ended, to the files that `test/support/run/failed-tests.ts` has written down. */
async function vitest(args, name) {
  const path = join(folder, name)
  const env = { ...process.env, EDGE_TEST_FAILED: path }
  child = spawn(process.execPath, [VITEST, 'run', ...args], { stdio: 'inherit', env })
  const exitCode = await new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)))
  return { exitCode, failed: readFailed(path) }
}

/** Nothing, if the run ended before it could say what failed. */
function readFailed(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return []
    throw error
  }
}
