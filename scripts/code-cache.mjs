// The last step of `npm run build`: starts the program in its modes and keeps the code that V8 has compiled by the time they serve, in
// program/cache/. A start that finds it compiles next to nothing. It is of use to the same version of Node alone; any other compiles.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const WRITER = fileURLToPath(new URL('code-cache-writer.cjs', import.meta.url))
const BUNDLE = fileURLToPath(new URL('../examples/quickstart.json', import.meta.url))
const TOKEN = 'only-while-the-program-is-built-0123456789'
/** Where nobody listens: the start of a fleet goes on without Redis, and a proxy without its backend. */
const NOBODY = '127.0.0.1:9'

/** Each start adds to the code of those before. What they do not load is compiled when it is needed. */
const STARTS = [
  { EDGE_ADMIN_PORT: '0', EDGE_ADMIN_TOKEN: TOKEN, EDGE_GRPC_PORT: '0' },
  { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: `http://${NOBODY}`, EDGE_REDIS_URL: `redis://${NOBODY}` },
]
/** A start takes a second at most; a machine that cannot run the program is no reason not to build it. */
const TOO_LONG_MS = 60_000

/** Without code a start takes longer, and everything else is the same: a failure is told, and does not fail the build. */
export async function writeCodeCache(program) {
  const { CACHE } = createRequire(import.meta.url)(join(program, 'load.js'))
  mkdirSync(CACHE, { recursive: true })
  try {
    for (const settings of STARTS) await start(join(program, 'edge.js'), { ...settings, CODE_CACHE_FOLDER: CACHE })
  } catch (error) {
    rmSync(CACHE, { recursive: true, force: true })
    process.stderr.write(`edge: built, but without compiled code, so that startup takes longer: ${error.message}\n`)
  }
}

async function start(entry, settings) {
  // V8's flags are part of the code, so those of this build must not be.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:NODE_|EDGE_)/.test(name)))
  const child = spawn(process.execPath, ['--require', WRITER, entry, 'serve'], {
    env: {
      ...env,
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: '0',
      EDGE_WORKERS: '1',
      EDGE_CONFIG_FILE: BUNDLE,
      EDGE_LOG_LEVEL: 'error',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TOO_LONG_MS,
    killSignal: 'SIGKILL',
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text
  })
  const [status] = await once(child, 'close')
  if (status !== 0) throw new Error(errors.trim().replace(/\s+/g, ' ') || `it ended with ${status}`)
}
