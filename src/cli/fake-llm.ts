import { parseArgs } from 'node:util'
import { flagTypes, type GivenFlags, readFlags } from '../fake-llm/flags.ts'
import { startFakeLlm } from '../fake-llm/server.ts'
import { printStartProblems } from './file-problem.ts'
import { FAKE_LLM_HELP } from './help.ts'
import { listenProblem } from './start-problem.ts'
import { argumentProblem } from './usage-problem.ts'

const COMMAND = 'edge fake-llm'

/** Starts the fake backend and returns; the listening socket keeps the process alive. */
export async function fakeLlm(args: string[]): Promise<number> {
  const given = readArguments(args)
  if (typeof given === 'number') return given
  const flags = readFlags(given)
  if (!flags.ok) return printStartProblems(COMMAND, flags.problems)
  const { options } = flags
  // There is nothing to save or to drain.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => process.exit(0))
  try {
    const { port } = await startFakeLlm({ ...options, keepsRequests: false })
    process.stdout.on('error', () => {}) // a closed stdout is no reason to stop serving
    process.stdout.write(greeting(options.host, port))
    return 0
  } catch (error) {
    const settings = { setting: '--port', address: `port ${options.port}`, hostSetting: '--host', host: options.host }
    const problem = listenProblem(error as Error, settings)
    if (problem === undefined) throw error
    return printStartProblems(COMMAND, [problem])
  }
}

function readArguments(args: string[]): GivenFlags | number {
  try {
    const { help, ...given } = parseArgs({ args, options: { ...flagTypes(), help: { type: 'boolean', short: 'h' } } }).values
    if (!help) return given
    process.stdout.write(FAKE_LLM_HELP)
    return 0
  } catch (error) {
    const problem = argumentProblem(error, 'fake-llm', FAKE_LLM_HELP)
    if (problem === undefined) throw error
    return printStartProblems(COMMAND, [problem])
  }
}

function greeting(host: string, port: number): string {
  const base = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
  return `edge fake-llm: a fake LLM backend with made-up responses
  listens ${base}
  try     curl -N ${base}/v1/chat/completions -d '{"stream":true,"messages":[{"role":"user","content":"hello"}]}'
  served  curl ${base}/fake/usage
`
}
