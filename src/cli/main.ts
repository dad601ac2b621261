#!/usr/bin/env node
import { runCommand } from './command.ts'

// No `await` up here: a command's file may import from this one, and would wait for it.
void runCommand(process.argv.slice(2)).then((status) => {
  process.exitCode = status
})
