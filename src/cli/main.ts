#!/usr/bin/env node
import { runCommand } from './command.ts'

// No top-level `await`: a command's file may import from this one, and would wait for it for ever.
void runCommand(process.argv.slice(2)).then((status) => {
  process.exitCode = status
})
