// The processes of `npm run bench:proxy`: each has a core, and says what it has used.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Whoever is measured is alone on the first core; backend and load share the second. */
export const MEASURED = 0
export const OTHERS = 1

/** Not every system can bind a process to a core. */
export const hasCores = spawnSync('taskset', ['-c', String(OTHERS), process.execPath, '-e', '']).status === 0

const PROBE = new URL('./probe.mjs', import.meta.url).href
const running = new Set()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** Starts a script that sends a message, or prints a line with its address, when it is ready. */
export async function start(core, script, args = [], env = {}) {
  const command = [process.execPath, '--import', PROBE, pathOf(script), ...args]
  const [file, ...rest] = hasCores ? ['taskset', '-c', String(core), ...command] : command
  const child = spawn(file, rest, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'], env: { ...process.env, ...env } })
  running.add(child)
  child.once('exit', (code) => {
    if (running.delete(child)) throw new Error(`${script} has ended with ${code}`)
  })
  const ready = once(child, 'message').then(([{ port }]) => port)
  const printed = once(child.stdout, 'data').then(([text]) => Number(/listens http:\S*:(\d+)/.exec(text)[1]))
  child.port = await Promise.race([ready, printed])
  return child
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

function pathOf(script) {
  return fileURLToPath(new URL(script, import.meta.url))
}
