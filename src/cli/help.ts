import { SETTINGS, type Setting } from '../config/config.ts'
import { flagRows } from '../fake-llm/flags.ts'

export const HELP = `edge: may this request go on?

Usage:
  edge serve [options]     start the service (edge serve --help lists the options)
  edge validate FILE...    check policy bundles: 0 all good, 1 a problem
  edge keygen [--out NAME] make a pair of keys to sign bundles with
  edge sign --key FILE BUNDLE...
                           sign policy bundles that are good
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

export const KEYGEN_HELP = `Usage: edge keygen [--out NAME]

Makes an Ed25519 key pair: NAME.key, the private key for edge sign (PEM, for its owner alone), and NAME.pub, the public key
for EDGE_CONFIG_PUBLIC_KEY, which is printed too. NAME is edge-bundle unless it is given. Files that exist are left alone.
Exit status: 0 when both were written, 1 otherwise.
`

export const SIGN_HELP = `Usage: edge sign --key FILE BUNDLE...
       edge sign --key FILE --stdout BUNDLE

Checks policy bundles as edge validate does, signs the bytes of each with the private key in FILE, and writes the signature to
BUNDLE.sig. With --stdout it goes to standard output instead, for the header X-Edge-Signature.
Exit status: 0 when all are signed, 1 otherwise; a bundle with problems is not signed.
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
