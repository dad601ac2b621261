#!/usr/bin/env node
import { VERSION } from '../version.ts'
import { HELP } from './help.ts'
import { serve } from './serve.ts'
import { validate } from './validate.ts'

process.exitCode = await run(process.argv.slice(2))

async function run(args: string[]): Promise<number> {
  const [command, ...rest] = args
  switch (command) {
    case 'serve':
      return serve(rest)
    case 'validate':
      return validate(rest)
    case undefined:
    case '-h':
    case '--help':
    case 'help':
      process.stdout.write(HELP)
      return command === undefined ? 1 : 0
    case '-v':
    case '--version':
      process.stdout.write(`${VERSION}\n`)
      return 0
    default:
      process.stderr.write(`edge: unknown command ${JSON.stringify(command)}; see edge --help\n`)
      return 1
  }
}
