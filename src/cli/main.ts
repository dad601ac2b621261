#!/usr/bin/env node
import { runCommand } from './command.ts'

// By default Node opens its debugger on it, where every user of the machine could read all secrets. Recipes for log rotation send this signal.
process.on('SIGUSR1', () => {})
// One that came before this line has opened it, or is about to.
for (const delayMs of [0, 1000]) setTimeout(() => void closeDebugger(), delayMs).unref()

// No top-level `await`: a command's file may import from this one, and would wait for it for ever.
void runCommand(process.argv.slice(2)).then((status) => {
  process.exitCode = status
})

/** One that the command line asks for stays. */
async function closeDebugger(): Promise<void> {
  const options = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ')
  if (/--inspect(?:-brk|-wait)?(?:[ =]|$)/.test(options)) return
  const { close, url } = await import('node:inspector')
  if (url() !== undefined) close()
}
