/**
 * A field's name, given in lower case, as CGI and what descends from it read it (RFC 3875 4.1.18; WSGI, Rack, PHP): they turn whatever
 * is no letter or digit into `_`, so `x_api_key` and `x.api-key` are the same field to them.
 */
export function foldedName(name: string): string {
  return name.replace(/[^a-z0-9-]/g, '-')
}
