// The processes of a benchmark: each has a core, and none outlives it.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Whoever is measured is alone on the first core; the load, and a backend where there is one, share the second. */
export const MEASURED = 0
export const OTHERS = 1

/** Not every system can bind a process to a core. */
export const hasCores = spawnSync('taskset', ['-c', String(OTHERS), process.execPath, '-e', '']).status === 0

/** Lets a process of ours answer `watch` and `report`: how late the event loop of its worker is. */
export const PROBE = ['--import', new URL('./probe.mjs', import.meta.url).href]

const running = new Set()
process.on('exit', () => {
  for (const child of running) killGroup(child)
})
process.on('SIGINT', () => process.exit(130))
process.on('SIGTERM', () => process.exit(143))

/** Starts a program on a core. It belongs to the benchmark: an end that nobody asked for is the end of everything. */
export function startProgram(core, file, args, { env = {}, stdio = ['ignore', 'pipe', 'inherit'] } = {}) {
  const [first, ...rest] = hasCores ? ['taskset', '-c', String(core), file, ...args] : [file, ...args]
  // A group of its own, so that its children go with it.
  const child = spawn(first, rest, { stdio, env: { ...process.env, ...env }, detached: true })
  running.add(child)
  child.once('error', (cause) => {
    throw new Error(`${file} does not start`, { cause })
  })
  child.once('exit', (code, signal) => {
    if (running.delete(child)) throw new Error(`${[file, ...args].join(' ')} has ended with ${signal ?? code}`)
  })
  return child
}

/** Starts a script that sends a message, or prints a line with its address, when it is ready. */
export async function start(core, script, { args = [], env, execArgv = [] } = {}) {
  const child = startProgram(core, process.execPath, [...execArgv, fileURLToPath(script), ...args], {
    env,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  const ready = once(child, 'message').then(([{ port }]) => port)
  const printed = once(child.stdout, 'data').then(([text]) => Number(/listens https?:\S*:(\d+)/.exec(text)[1]))
  child.port = await Promise.race([ready, printed])
  return child
}

/** Runs a program on a core to its end; answers what it printed. */
export async function run(core, file, args) {
  const child = startProgram(core, file, args)
  const printed = child.stdout.setEncoding('utf8').toArray()
  child.removeAllListeners('exit')
  const [code, signal] = await once(child, 'exit')
  running.delete(child)
  if (code !== 0) throw new Error(`${[file, ...args].join(' ')} has ended with ${signal ?? code}`)
  return (await printed).join('')
}

export async function stop(child) {
  running.delete(child)
  child.kill()
  await once(child, 'exit')
}

/** One question at a time. */
export async function ask(child, task, options = {}) {
  child.send({ task, ...options })
  const [answer] = await once(child, 'message')
  return answer
}

function killGroup({ pid }) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // gone already
  }
}
