/** Where an operator goes on from a problem: a view of this page, and a section of the runbook (docs/runbook.md). */
export interface ProblemPlace {
  readonly view?: string
  readonly section: string
}

const PLACES: Readonly<Record<string, ProblemPlace>> = {
  bundle_refused: { view: 'bundle', section: 'A bundle was refused' },
  bundle_unreadable: { view: 'bundle', section: 'A bundle was refused' },
  bundle_not_cached: { view: 'bundle', section: 'What the problems mean' },
  redis_unavailable: { section: 'Redis is unreachable' },
  overrides_unreadable: { view: 'overrides', section: 'What the problems mean' },
  backend_failed: { view: 'backends', section: 'A provider is down' },
  backend_cooling: { view: 'backends', section: 'A provider is down' },
  backends_cooling: { view: 'backends', section: 'A provider is down' },
  requests_silent: { view: 'backends', section: 'A stream hangs' },
}

export function placeOf(code: string): ProblemPlace {
  return PLACES[code] ?? { section: 'What the problems mean' }
}
