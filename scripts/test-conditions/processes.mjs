import { spawn } from 'node:child_process'

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

/** Registers an action for the end of the script, whether it ends normally, by a signal or by an error. */
export function ending(action) {
  atEnd.push(action)
}

/** Starts a process in a group of its own, which ends with the script. */
export function startGroup([command, ...args], options) {
  const child = spawn(command, args, { stdio: 'ignore', ...options, detached: true })
  running.add(child)
  child.on('exit', () => running.delete(child))
  child.on('error', () => running.delete(child))
  return child
}

/**
 * Starts `count` threads that run endless loops. They are in one process, like other work on a machine: Linux divides CPU time among sessions first,
 * so loops with a session each would take more than their share. They end by themselves when the script is gone. Returns a function that stops them.
 */
export function startLoops(count, wrapper = []) {
  if (count === 0) return () => {}
  const code = `
    const { Worker } = require('node:worker_threads')
    for (let i = 0; i < ${count}; i++) new Worker('for (;;);', { eval: true })
    setInterval(() => process.ppid === ${process.pid} || process.exit(), 1000)`
  const loops = startGroup([...wrapper, process.execPath, '-e', code])
  return () => endGroup(loops, 'SIGKILL')
}

/** Resolves to the exit status, or to the signal's name. */
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
