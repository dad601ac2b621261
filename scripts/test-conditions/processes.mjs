import { spawn } from 'node:child_process'

/** Ends by itself within a second when the script is gone, however that came about. */
const LOOP = `
  for (;;) {
    const endMs = Date.now() + 1000
    while (Date.now() < endMs);
    if (process.ppid !== ${process.pid}) process.exit()
  }`

const HURRY_MS = 10_000

const running = new Set()
const atEnd = []

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, async () => {
    process.exitCode = 1
    for (const child of running) endGroup(child, 'SIGTERM')
    const hurry = setTimeout(() => process.exit(), HURRY_MS)
    await Promise.all([...running].map(ended))
    clearTimeout(hurry)
    process.exit()
  })
}
process.on('exit', () => {
  for (const child of running) endGroup(child, 'SIGKILL')
  for (const action of atEnd) action()
})

/** `action` is done when the script ends, whether by itself, by a signal or by an error. */
export function ending(action) {
  atEnd.push(action)
}

/** A process in a group of its own, which ends with the script. */
export function startGroup([command, ...args], options) {
  const child = spawn(command, args, { stdio: 'ignore', ...options, detached: true })
  running.add(child)
  child.on('exit', () => running.delete(child))
  child.on('error', () => running.delete(child))
  return child
}

/** Returns how to stop them. */
export function startLoops(count, wrapper = []) {
  const loops = Array.from({ length: count }, () => startGroup([...wrapper, process.execPath, '-e', LOOP]))
  return () => {
    for (const loop of loops) endGroup(loop, 'SIGKILL')
  }
}

/** Exit status, or the signal's name. */
export function ended(child) {
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code, signal) => resolve(code ?? signal))
  })
}

function endGroup({ pid }, signal) {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}
