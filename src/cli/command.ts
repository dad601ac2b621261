import { VERSION } from '../files/package-files.ts'

/** Runs a command and returns the exit status. Each command is loaded on demand. */
export async function runCommand(args: string[]): Promise<number> {
  const [command, ...rest] = args
  switch (command) {
    case 'serve':
      process.on('SIGHUP', () => {}) // until there is a bundle to reload, the signal must not end the process
      return (await import('./serve.ts')).serve(rest)
    case 'health':
      return (await import('./health.ts')).health(rest)
    case 'validate':
      return (await import('./validate.ts')).validate(rest)
    case 'test':
      return (await import('./test/test.ts')).test(rest)
    case 'convert':
      return (await import('./ratelimit/convert.ts')).convert(rest)
    case 'keygen':
      return (await import('./sign.ts')).keygen(rest)
    case 'sign':
      return (await import('./sign.ts')).sign(rest)
    case 'fake-llm':
      return (await import('./fake-llm.ts')).fakeLlm(rest)
    case 'replay':
      return (await import('./replay/replay.ts')).replay(rest)
    case 'usage':
      return (await import('./usage/usage.ts')).usage(rest)
    case 'status':
    case 'backends':
    case 'top':
    case 'caller':
    case 'explain':
    case 'counters':
    case 'reset':
    case 'override':
    case 'keys':
    case 'bundle':
    case 'rollback':
    case 'events':
    case 'changes':
      return (await import('./admin/admin-commands.ts')).runAdmin(command, rest)
    case undefined:
    case '-h':
    case '--help':
    case 'help':
      process.stdout.write((await import('./help.ts')).HELP)
      return command === undefined ? 1 : 0
    case '-v':
    case '--version':
      process.stdout.write(`${VERSION}\n`)
      return 0
    default:
      return refuse(command)
  }
}

async function refuse(command: string): Promise<number> {
  const [{ HELP }, { unknownCommand }] = await Promise.all([import('./help.ts'), import('./usage-problem.ts')])
  process.stderr.write(`edge: ${unknownCommand(command, HELP)}\n`)
  return 1
}
