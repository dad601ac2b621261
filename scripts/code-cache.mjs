// The last step of `npm run build`: starts the program in its modes and keeps the code that V8 has compiled by the time they serve, in
// program/cache/. A start that finds it compiles next to nothing. Only the same version of Node can use it; any other compiles as usual.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const WRITER = fileURLToPath(new URL('code-cache-writer.cjs', import.meta.url))
const BUNDLE = fileURLToPath(new URL('../examples/quickstart.json', import.meta.url))
const TOKEN = 'only-while-the-program-is-built-0123456789'
/** An address where nobody listens: a fleet starts without Redis, and a proxy without its backend. */
const NOBODY = '127.0.0.1:9'

/** Each start adds the code that it loads. Everything else is compiled when it is needed. */
const STARTS = [
  { EDGE_ADMIN_PORT: '0', EDGE_ADMIN_TOKEN: TOKEN, EDGE_GRPC_PORT: '0' },
  { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: `http://${NOBODY}`, EDGE_REDIS_URL: `redis://${NOBODY}` },
]
/** A start takes a second at most. A machine that cannot run the program can still build it. */
const TOO_LONG_MS = 60_000

/** A failure is reported but does not fail the build: without the code, only startup takes longer. */
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
  // V8 stores its flags with the code, so the flags of this build are not passed on.
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
