import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../decision/free-port.mjs'
import { fetchFrom } from '../support/http-client.mjs'

/** Looking more often would take the core that the start needs. */
const LOOK_MS = 2
const TOO_LONG_MS = 30_000
/** Without what this shell tells Node: certificates of its own, say, which every process and thread would read. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:NODE_|npm_)/.test(name)))

/**
 * Starts it once and stops it: milliseconds from its spawn until its port accepts, until it is ready, and the CPU time that the process and its
 * children took from their start to their end.
 */
export async function timedStart({ args, env, path, hasAdminPort }) {
  return path === undefined ? timedRun(args) : timedServer(args, env, path, hasAdminPort)
}

async function timedRun(args) {
  const usedBeforeMs = usedByChildrenMs()
  const startedMs = performance.now()
  const child = spawn(process.execPath, args, { stdio: 'ignore', env: ENVIRONMENT })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`node ${args.join(' ')} has ended with ${code}`)
  const readyMs = performance.now() - startedMs
  return { listeningMs: readyMs, readyMs, cpuMs: usedByChildrenMs() - usedBeforeMs }
}

async function timedServer(args, env, path, hasAdminPort) {
  const port = await freePort()
  const adminPort = await freePort()
  const usedBeforeMs = usedByChildrenMs()
  const startedMs = performance.now()
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'], env: { ...ENVIRONMENT, ...env(port, adminPort) } })
  const ended = once(child, 'exit')
  try {
    while (!(await accepts(port))) await pause(child, startedMs)
    const listeningMs = performance.now() - startedMs
    while ((await fetchFrom(hasAdminPort ? adminPort : port, path)).status !== 200) await pause(child, startedMs)
    const readyMs = performance.now() - startedMs
    child.kill('SIGTERM')
    await ended
    return { listeningMs, readyMs, cpuMs: usedByChildrenMs() - usedBeforeMs }
  } finally {
    child.kill('SIGKILL')
    await ended
  }
}

/** Of children that have ended, and of theirs. */
function usedByChildrenMs() {
  // Behind the name, which may have anything in it: the 14th and 15th of these are the times of children, in ticks of 10 ms.
  const numbers = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1).split(' ')
  return (Number(numbers[13]) + Number(numbers[14])) * 10
}

async function pause(child, startedMs) {
  if (child.exitCode !== null || performance.now() - startedMs > TOO_LONG_MS) throw new Error('it does not start')
  await sleep(LOOK_MS)
}

function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
