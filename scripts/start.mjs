// `npm start`: builds if something has changed since the last build, then runs the service, with the example bundle unless another source is set.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** What the program is built from. Folders count too: their time changes when a file is removed. */
const SOURCES = ['src', 'console', 'scripts', 'package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json']
/** npm writes it when it installs or removes packages, before it builds. */
const INSTALLED = 'node_modules/.package-lock.json'
const COMPILER = 'node_modules/typescript'
const COMPILED = 'dist/cli/main.js'
const PROGRAM = 'program/edge.js'

const reason = reasonToBuild()
if (reason !== undefined) build(reason)

const hasUrl = process.env.EDGE_CONFIG_URL || process.argv.some((arg) => /^--config-url(?:=|$)/.test(arg))
if (!hasUrl) process.env.EDGE_CONFIG_FILE ||= 'examples/quickstart.json'
process.argv.splice(2, 0, 'serve')
await import('../program/edge.js')

/** Returns why the program cannot be used as it is; undefined if it can. */
function reasonToBuild() {
  const program = statusOf(PROGRAM)
  const compiled = statusOf(COMPILED)
  // The program becomes executable in the last step of its build, so one without that was interrupted.
  if (program === undefined || compiled === undefined || (program.mode & 0o100) === 0) return 'there is no complete build yet'
  // Without the compiler, as after `npm prune --omit=dev`, there is only the build that was made before.
  if (!existsSync(join(ROOT, COMPILER))) return undefined
  const newer = [...SOURCES, INSTALLED].flatMap(pathsIn).find((path) => statusOf(path).mtimeMs > compiled.mtimeMs)
  return newer === undefined ? undefined : `${newer} has changed since the last build`
}

function statusOf(path) {
  return statSync(join(ROOT, path), { throwIfNoEntry: false })
}

/** Returns the path and, for a folder, everything below it but tests; nothing if there is no such path. */
function pathsIn(path) {
  const status = statusOf(path)
  if (status === undefined || path.endsWith('.test.ts')) return []
  if (!status.isDirectory()) return [path]
  return [path, ...readdirSync(join(ROOT, path)).flatMap((name) => pathsIn(`${path}/${name}`))]
}

function build(reason) {
  process.stdout.write(`npm start: building first, because ${reason}; this takes some seconds\n`)
  const { status, error } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: 'inherit' })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
