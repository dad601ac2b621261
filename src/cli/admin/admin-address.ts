import { AdminProblem } from './admin-problem.ts'
import { fieldBytes } from './field-bytes.ts'

/** Where the admin API is, and who asks. */
export interface AdminAddress {
  /** Ends in `/`; `/admin/v1/` follows it. */
  readonly base: URL
  readonly token: string
  readonly actor: string | undefined
}

export function readAdminAddress(env: Readonly<Record<string, string | undefined>>): AdminAddress {
  const base = readBase(env['EDGE_ADMIN_URL'], env['EDGE_ADMIN_PORT'])
  const token = env['EDGE_ADMIN_TOKEN'] ?? ''
  if (token === '') throw new AdminProblem('EDGE_ADMIN_TOKEN: expected the token that edge serve was started with')
  if (!/^[!-~]+$/.test(token)) throw new AdminProblem('EDGE_ADMIN_TOKEN: expected visible ASCII characters only')
  return { base, token, actor: actorOf(env['USER']) }
}

function readBase(text: string | undefined, port: string | undefined): URL {
  if (text) return readUrl(text)
  if (!port) throw new AdminProblem('EDGE_ADMIN_URL: expected the URL of the admin port, such as http://127.0.0.1:9090')
  if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65535)
    throw new AdminProblem('EDGE_ADMIN_URL: expected the URL of the admin port, because EDGE_ADMIN_PORT does not name one')
  return new URL(`http://127.0.0.1:${port}/`)
}

/** The URL of the API itself is understood too. The message does not quote the URL: it may contain a password. */
function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new AdminProblem('EDGE_ADMIN_URL: expected a URL that begins with http:// or https://')
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw new AdminProblem('EDGE_ADMIN_URL: expected a URL without user, query and fragment')
  url.pathname = url.pathname.replace(/\/admin\/v1\/?$/, '/')
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
}

/** As the value of a header field, which cannot carry control characters. */
function actorOf(user: string | undefined): string | undefined {
  return user ? fieldBytes(user.replace(/\p{Cc}/gu, '?')) : undefined
}
