import { parseArgs } from 'node:util'
import { flagTypes, readFlags } from '../fake-llm/flags.ts'
import { startFakeLlm } from '../fake-llm/server.ts'
import { FAKE_LLM_HELP } from './help.ts'

/** Starts the stand-in backend and returns; the listening socket keeps the process alive. */
export async function fakeLlm(args: string[]): Promise<number> {
  const given = readArguments(args)
  if (typeof given === 'number') return given
  const flags = readFlags(given)
  if (!flags.ok) return complain(flags.problems)
  const { options } = flags
  // There is nothing here that would be missed.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => process.exit(0))
  try {
    const { port } = await startFakeLlm({ ...options, keepsRequests: false })
    process.stdout.on('error', () => {}) // a reader that went away is no reason to stop serving
    process.stdout.write(greeting(options.host, port))
    return 0
  } catch (error) {
    const problem = startProblem(options, error as NodeJS.ErrnoException)
    if (problem === undefined) throw error
    return complain([problem])
  }
}

function readArguments(args: string[]): Record<string, string | boolean | undefined> | number {
  try {
    const { help, ...given } = parseArgs({ args, options: { ...flagTypes(), help: { type: 'boolean', short: 'h' } } }).values
    if (!help) return given as Record<string, string | boolean>
    process.stdout.write(FAKE_LLM_HELP)
    return 0
  } catch (error) {
    return complain([(error as Error).message])
  }
}

function complain(problems: readonly string[]): number {
  const lines = problems.map((problem) => `  ${problem}\n`)
  process.stderr.write(`edge fake-llm cannot start:\n${lines.join('')}`)
  return 1
}

function startProblem({ port, host }: { port: number; host: string }, { code }: NodeJS.ErrnoException): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return `--port: port ${port} is in use by another process`
    case 'EACCES':
      return `--port: this user is not allowed to listen on port ${port}`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `--host: ${JSON.stringify(host)} is not an address of this machine`
    default:
      return undefined
  }
}

function greeting(host: string, port: number): string {
  const base = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
  return `edge fake-llm: a fake LLM backend with made-up responses
  listens ${base}
  try     curl -N ${base}/v1/chat/completions -d '{"stream":true,"messages":[{"role":"user","content":"hello"}]}'
`
}
