/** Returns the path of the admin API for policies, with those parameters that are set. */
export function policiesPath(parameters: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined && value !== '') query.set(name, value)
  return `policies?${query}`
}
