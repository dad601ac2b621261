import { SETTINGS, type Setting } from '../config.ts'
import { flagRows } from '../fake-llm/flags.ts'

export const HELP = `edge: may this request go on?

Usage:
  edge serve [options]     start the service (edge serve --help lists the options)
  edge validate FILE...    check policy bundles: 0 all good, 1 a problem
  edge fake-llm [options]  start a stand-in LLM backend, to try token budgets offline
  edge --version
  edge --help
`

export const SERVE_HELP = `Usage: edge serve [options]

Every option is an environment variable too; the option wins.

${settingLines()}

Signals: SIGHUP reloads the bundle, SIGTERM and SIGINT drain and stop, a second one stops at once.
`

export const VALIDATE_HELP = `Usage: edge validate FILE...

Checks policy bundles (JSON; YAML when the name ends in .yaml or .yml) and prints every problem with its path.
Exit status: 0 when all can be loaded (warnings are allowed), 1 otherwise.
`

export const FAKE_LLM_HELP = `Usage: edge fake-llm [options]

Answers like OpenAI (/v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, /v1/models) and Anthropic
(/v1/messages), streams too. The same request gets the same answer, four characters a token.

${flagLines()}

Failures: status answers 500 at once; reset, stall and garbage break the connection, leave it silent, or send what is no
HTTP chunk; error-event ends a stream with its provider's error event (without a stream: status). An answer that has fewer
tokens than --fail-after does not fail.
`

function flagLines(): string {
  const rows = flagRows()
  const width = Math.max(...rows.map(({ flag }) => flag.length))
  return rows.map(({ flag, about }) => `  ${flag.padEnd(width)}  ${about}`).join('\n')
}

function settingLines(): string {
  const rows = Object.values<Setting<unknown>>(SETTINGS).map((setting) => {
    const flag = setting.flag === undefined ? '(no option: a secret)' : `--${setting.flag} VALUE`
    const fallback = setting.fallback === undefined ? '' : ` [${setting.fallback}]`
    return { flag, env: setting.env, about: `${setting.about}${fallback}` }
  })
  const width = (pick: (row: (typeof rows)[number]) => string): number => Math.max(...rows.map((row) => pick(row).length))
  const flagWidth = width((row) => row.flag)
  const envWidth = width((row) => row.env)
  return rows.map((row) => `  ${row.flag.padEnd(flagWidth)}  ${row.env.padEnd(envWidth)}  ${row.about}`).join('\n')
}
