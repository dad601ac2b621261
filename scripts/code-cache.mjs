// The last step of `npm run build`: starts the program in its modes, sends it a few requests, and keeps the code that V8 has compiled by then, in
// program/cache/. A start that finds it compiles next to nothing, and neither do the first requests. Only the same version of Node can use it; any
// other compiles as usual.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const WRITER = fileURLToPath(new URL('code-cache-writer.cjs', import.meta.url))
const EXAMPLES = fileURLToPath(new URL('../examples/', import.meta.url))
const TOKEN = 'only-while-the-program-is-built-0123456789'
/** An address where nobody listens: a fleet starts without Redis. */
const NOBODY = '127.0.0.1:9'
const JSON_TYPE = { 'content-type': 'application/json' }

/** Each start adds the code that it loads, and that its requests run. Everything else is compiled when it is needed. */
const STARTS = [
  { bundle: 'quickstart.json', settings: { EDGE_ADMIN_PORT: '0', EDGE_ADMIN_TOKEN: TOKEN, EDGE_GRPC_PORT: '0' }, ask: askForDecisions },
  { bundle: 'llm-budget.json', settings: { EDGE_MODE: 'reverse_proxy' }, ask: askForAnswers },
  { bundle: 'quickstart.json', settings: { EDGE_REDIS_URL: `redis://${NOBODY}` }, ask: async () => {} },
]
/** The second request finds a connection and a caller that are known. */
const TIMES = 2
/** A start takes a second at most. A machine that cannot run the program can still build it. */
const TOO_LONG_MS = 60_000

/** A failure is reported but does not fail the build: without the code, only startup takes longer. */
export async function writeCodeCache(program) {
  const { CACHE } = createRequire(import.meta.url)(join(program, 'load.js'))
  mkdirSync(CACHE, { recursive: true })
  const backend = createServer(answer).listen(0, '127.0.0.1')
  try {
    await once(backend, 'listening')
    const common = { CODE_CACHE_FOLDER: CACHE, EDGE_BACKEND_URL: `http://127.0.0.1:${backend.address().port}` }
    for (const each of STARTS) await start(join(program, 'edge.js'), each, common)
  } catch (error) {
    rmSync(CACHE, { recursive: true, force: true })
    process.stderr.write(`edge: built, but without compiled code, so that startup takes longer: ${error.message}\n`)
  } finally {
    backend.close()
  }
}

async function start(entry, { bundle, settings, ask }, common) {
  // V8 stores its flags with the code, so the flags of this build are not passed on.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:NODE_|EDGE_)/.test(name)))
  const child = spawn(process.execPath, ['--require', WRITER, entry, 'serve'], {
    env: {
      ...env,
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: '0',
      EDGE_WORKERS: '1',
      EDGE_CONFIG_FILE: join(EXAMPLES, bundle),
      EDGE_LOG_LEVEL: 'error',
      ...common,
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    timeout: TOO_LONG_MS,
    killSignal: 'SIGKILL',
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text
  })
  const closed = once(child, 'close')
  addressOf(child)
    .then(ask)
    .then(() => child.send('write'))
    .catch((error) => {
      errors += error.message
      child.kill('SIGKILL')
    })
  const [status] = await closed
  if (status !== 0) throw new Error(errors.trim().replace(/\s+/g, ' ') || `it ended with ${status}`)
}

/** The program prints it when everything is open. */
async function addressOf(child) {
  let greeting = ''
  for await (const text of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    greeting += text
    const [, address] = /listens\s+(\S+)\s/.exec(greeting) ?? []
    if (address !== undefined) return address
  }
  throw new Error('it does not say where it listens')
}

async function askForDecisions(url) {
  const headers = { 'X-Original-Method': 'GET', 'X-Original-URI': '/api/hello', 'X-Api-Key': 'somebody' }
  for (let i = 0; i < TIMES; i++) await send(`${url}/v1/decision`, { method: 'POST', headers })
}

async function askForAnswers(url) {
  const messages = [{ role: 'user', content: 'Hello' }]
  const headers = { ...JSON_TYPE, 'X-Api-Key': 'somebody' }
  for (let i = 0; i < TIMES; i++) {
    await send(`${url}/`, { headers })
    for (const stream of [false, true]) {
      const body = JSON.stringify({ model: 'a-model', stream, max_tokens: 10, messages })
      await send(`${url}/v1/chat/completions`, { method: 'POST', headers, body })
    }
  }
}

async function send(url, options) {
  const response = await fetch(url, options)
  await response.text()
  if (response.status !== 200) throw new Error(`${url} was answered with ${response.status}`)
}

/** What a provider answers. */
function answer(request, response) {
  let body = ''
  request.setEncoding('utf8').on('data', (text) => {
    body += text
  })
  request.on('end', () => {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    if (!body.includes('"stream":true')) {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }]
      response.writeHead(200, JSON_TYPE).end(JSON.stringify({ object: 'chat.completion', model: 'a-model', choices, usage }))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const delta of [{ role: 'assistant' }, { content: 'Hel' }, { content: 'lo' }]) {
      response.write(`data: ${JSON.stringify({ object: 'chat.completion.chunk', model: 'a-model', choices: [{ index: 0, delta }] })}\n\n`)
    }
    response.end(`data: ${JSON.stringify({ object: 'chat.completion.chunk', model: 'a-model', choices: [], usage })}\n\ndata: [DONE]\n\n`)
  })
}
