import type { Setting } from '../config/config-values.ts'
import { SETTING_GROUPS } from '../config/settings.ts'
import { flagRows } from '../fake-llm/flags.ts'

const MAX_COLUMNS = 100

export const HELP = `edge: decides whether a request may proceed (rate limits, LLM token budgets)

Usage:
  edge serve [options]     start the service (edge serve --help lists the options)
  edge health              whether the service is ready; exit status 0: it is, 1: it is not
  edge validate FILE...    check policy bundles; exit status 0: all valid, 1: a problem
  edge test BUNDLE CASES...
                           run test cases on a policy bundle; exit status 0: all pass, 1: one fails
  edge replay --bundle FILE [--bundle FILE] LOG...
                           who of recorded traffic would be rejected by one or two bundles
  edge usage [--by KEYS] DIR...
                           who used how many tokens, and how much money
  edge convert ratelimit FILE...
                           turn the configuration of envoyproxy/ratelimit into a policy bundle
  edge keygen [--out NAME] create a key pair for signing bundles
  edge sign --key FILE BUNDLE...
                           check policy bundles and sign them
  edge fake-llm [options]  start a fake LLM backend, to try token budgets offline

Ask a running instance:
  edge status              its state, and what is wrong now
  edge backends            where requests go, and which backends fail; retry NAME tries one again
  edge explain URI         why a request is allowed or rejected
  edge caller VALUE | KEY=VALUE...
                           everything that is known of a caller, by its API key or another value
  edge counters POLICY RULE KEY=VALUE...
                           what a caller has left
  edge top [POLICY [RULE]] who is rejected most, and who is nearest to a limit
  edge override POLICY RULE KEY=VALUE... CHANGE --until TIME --reason TEXT
                           change a limit until a time, for a caller or, with --all, for all
  edge reset POLICY RULE KEY=VALUE... --reason TEXT
                           make a caller's counters full again
  edge keys create LABEL=VALUE... --reason TEXT
                           issue a key that names its caller; also list, show, change, revoke them
  edge bundle [VERSION]    the active bundle, those before it, their texts and what changed
  edge rollback [--to VERSION] [--publish FILE]
                           go back to the policies of an earlier bundle
  edge events [--follow]   what happened in the last hour
  edge changes             who changed what last, and why

  edge --version
  edge --help

edge COMMAND --help explains a command.
`

export const SERVE_HELP = `Usage: edge serve [options]

Every option can also be set by its environment variable; the option takes precedence. Defaults are
in brackets.

${settingLines()}

Signals: SIGHUP reloads the bundle and its issuers' key sets; SIGTERM and SIGINT drain and stop; a
second one stops at once.
`

export const HEALTH_HELP = `Usage: edge health

Asks the instance on this machine for /readyz and prints one line: for health checks of containers.
It needs no token. It reads the settings of edge serve from the environment: EDGE_ADMIN_PORT and
EDGE_ADMIN_HOST or, without an admin port, EDGE_PORT, EDGE_HOST and EDGE_SOCKET, and whether that
port speaks TLS (EDGE_TLS_CERT_FILE, EDGE_TLS_LISTENERS).

Exit status: 0 if it is ready, 1 if it is not, or if nothing responds within 5 seconds.
`

export const VALIDATE_HELP = `Usage: edge validate [--mode MODE] FILE...

Checks policy bundles (JSON; YAML when the name ends in .yaml or .yml) and prints every problem with
its path. Set EDGE_STORE_SIZE as for the service: some bundles need a larger table. With
EDGE_BACKEND_HOSTS or EDGE_BACKEND_URL, it also checks where backends and key sets may be. Without
EDGE_GATEWAY_HINTS=on, it names the rules that need it in decision_service.

  --mode MODE         decision_service or reverse_proxy, as EDGE_MODE: also print warnings specific
                      to this mode

What the service only warns about because an earlier release accepted it, such as a pattern that
never matches, is an error here and in edge sign.

Exit status: 0 if all are valid (warnings are allowed), 1 otherwise.
`

export const CONVERT_HELP = `Usage: edge convert ratelimit [--bundle-version N] FILE...

Reads configuration files of envoyproxy/ratelimit (YAML, a domain each) and prints one policy bundle
with the same limits, as YAML. The default version is 1. Anything that a bundle cannot express, or
that has no effect, is printed to standard error with its path.
Exit status: 0 if everything was converted; 1 if something could not be expressed (the bundle has
the rest), or if a file is not valid (nothing is printed).
`

export const KEYGEN_HELP = `Usage: edge keygen [--out NAME]

Creates an Ed25519 key pair: NAME.key, the private key for edge sign (PEM, readable only by its
owner), and NAME.pub, the public key for EDGE_CONFIG_PUBLIC_KEY, which is also printed. The default
NAME is edge-bundle. Existing files are never overwritten.
Exit status: 0 if both were written, 1 otherwise.
`

export const SIGN_HELP = `Usage: edge sign --key FILE BUNDLE...
       edge sign --key FILE --stdout BUNDLE

Checks policy bundles as edge validate does, signs the bytes of each with the private key in FILE,
and writes the signature to BUNDLE.sig. With --stdout it goes to standard output instead, for the
header X-Edge-Signature.
Exit status: 0 if all were signed, 1 otherwise; a bundle with problems is not signed.
`

export const FAKE_LLM_HELP = `Usage: edge fake-llm [options]

Responds like these APIs, including streams. The same request always gets the same response; four
characters are a token.

  OpenAI     /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, /v1/models
  Azure      /openai/deployments/NAME/ and chat/completions, completions or embeddings;
             /openai/responses
  Anthropic  /v1/messages, /v1/messages/count_tokens
  Gemini     /v1beta/models/MODEL: and generateContent, streamGenerateContent (with alt=sse events,
             otherwise a JSON list), countTokens, embedContent or batchEmbedContents
  Vertex     Gemini's methods, and for models of publishers/anthropic rawPredict, streamRawPredict
             and count-tokens:rawPredict

${flagLines()}

Failures: a status such as 429 is returned at once, and so is 500 for status; hang never responds;
reset closes the connection; stall leaves it silent; garbage sends bytes that are not an HTTP chunk;
error-event ends a stream with the provider's error event (without a stream: status). A response
with fewer tokens than --fail-after does not fail in the last four ways.

A failure can meet a share of all requests: --fail 429:0.2 --fail reset:0.1 --retry-after 3 rejects
a fifth of them and resets a tenth. With --seed, the same requests in the same order fail each time.

GET /fake/usage returns what was served since the start: requests, failures, and tokens by model.
`

function flagLines(): string {
  const rows = flagRows()
  const width = Math.max(...rows.map(({ flag }) => flag.length))
  return rows.map(({ flag, about }) => `  ${flag.padEnd(width)}  ${wrapped(about, ' '.repeat(width + 4)).trimStart()}`).join('\n')
}

/** Lists the settings by group, each with its variable and default on one line and what it is for below. */
function settingLines(): string {
  const all = SETTING_GROUPS.flatMap(({ settings }) => Object.values(settings))
  const width = Math.max(...all.map((setting) => optionOf(setting).length))
  return SETTING_GROUPS.map(({ title, settings }) => {
    const rows = Object.values(settings).map((setting) => {
      const fallback = setting.fallback === undefined ? '' : ` [${setting.fallback}]`
      return `  ${optionOf(setting).padEnd(width)}  ${setting.env}${fallback}\n${wrapped(setting.about, '      ')}`
    })
    return `${title}:\n${rows.join('\n')}`
  }).join('\n\n')
}

function optionOf({ flag }: Setting<unknown>): string {
  return flag === undefined ? '(no option: a secret)' : `--${flag} VALUE`
}

function wrapped(text: string, indent: string): string {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1) ?? indent.slice(1)} ${word}`
    if (lines.length > 0 && longer.length <= MAX_COLUMNS) lines[lines.length - 1] = longer
    else lines.push(`${indent}${word}`)
  }
  return lines.join('\n')
}
