import type { ComponentType } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { forgetCallers } from './callers/asked-caller.ts'
import { CallerSearch } from './callers/caller-search.tsx'
import { ConnectionAnnouncer } from './connection-announcer.tsx'
import { followEvents, forgetEvents } from './events/event-stream.ts'
import { Header } from './header.tsx'
import { forgetResults } from './live.ts'
import { LoginDialog, LoginPage, resumeSession } from './login.tsx'
import { address, addressOf } from './navigation.ts'
import { useScrollHints } from './parts/scroll-hints.ts'
import { keepConnected } from './reconnecting.ts'
import { actor, csrfToken } from './session.ts'
import { statusPoll } from './status.ts'
import { BackendsView } from './views/backends-view.tsx'
import { BundleView } from './views/bundle-view.tsx'
import { CallerView } from './views/caller-view.tsx'
import { CallersView } from './views/callers-view.tsx'
import { ChangesView } from './views/changes-view.tsx'
import { EventsView } from './views/events-view.tsx'
import { ExplainView } from './views/explain-view.tsx'
import { KeyView } from './views/key-view.tsx'
import { KeysView } from './views/keys-view.tsx'
import { LlmView } from './views/llm-view.tsx'
import { OverridesView } from './views/overrides-view.tsx'
import { OverviewView } from './views/overview-view.tsx'
import { PoliciesView } from './views/policies-view.tsx'

interface View {
  readonly name: string
  readonly title: string
  readonly content: ComponentType
  /** The view of the navigation that this one belongs to. It is opened from other views. */
  readonly within?: string
}

/** The first view is shown if the address names none. */
const VIEWS: readonly View[] = [
  { name: 'overview', title: 'Overview', content: OverviewView },
  { name: 'policies', title: 'Policies', content: PoliciesView },
  { name: 'bundle', title: 'Bundle', content: BundleView },
  { name: 'callers', title: 'Callers', content: CallersView },
  { name: 'caller', title: 'Caller', content: CallerView, within: 'callers' },
  { name: 'keys', title: 'Keys', content: KeysView },
  { name: 'key', title: 'Key', content: KeyView, within: 'keys' },
  { name: 'overrides', title: 'Overrides', content: OverridesView },
  { name: 'llm', title: 'LLM', content: LlmView },
  { name: 'backends', title: 'Backends', content: BackendsView },
  { name: 'explain', title: 'Explain', content: ExplainView },
  { name: 'events', title: 'Events', content: EventsView },
  { name: 'changes', title: 'Changes', content: ChangesView },
]

void resumeSession()
keepConnected()

export function App() {
  if (csrfToken.value === undefined) return null
  if (actor.value === undefined) return <LoginPage />
  return (
    <>
      <Shell />
      {csrfToken.value === null && <LoginDialog />}
    </>
  )
}

function Shell() {
  const isLoggedIn = csrfToken.value !== null
  useEffect(() => statusPoll.start(), [])
  useEffect(() => (isLoggedIn ? followEvents() : undefined), [isLoggedIn])
  useEffect(() => forgetAll, [])
  const shown = VIEWS.find(({ name }) => name === address.value.view) ?? VIEWS[0]!
  const { ref: views } = useScrollHints<HTMLElement>()
  // On a phone the views are in one row, which scrolls.
  useEffect(() => views.current!.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [shown])
  return (
    <>
      <div class="top">
        <Header />
        <div class="views-row">
          <nav aria-label="Views" ref={views}>
            {VIEWS.filter(({ within }) => within === undefined).map(({ name, title }) => (
              <a key={name} href={addressOf(name)} aria-current={currentOf(name, shown)} data-title={title}>
                {title}
              </a>
            ))}
          </nav>
          <CallerSearch />
        </div>
      </div>
      <ConnectionAnnouncer />
      {/* Another caller is another view. */}
      <ShownView key={shown.name + (address.value.parameters.get('asked') ?? '')} view={shown} />
    </>
  )
}

function currentOf(name: string, { name: shown, within }: View): 'page' | 'true' | undefined {
  return name === shown ? 'page' : name === within ? 'true' : undefined
}

/**
 * When a view replaces another, the focus moves to its heading, so that a screen reader announces the view. It moves before the view is drawn: whoever has
 * seen the view may press a key already, and a focus that moves later would take that key to the heading.
 */
function ShownView({ view }: { readonly view: View }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => {
    document.title = `${view.title} · edge`
    if (hasShownView) heading.current!.focus()
    hasShownView = true
  }, [view])
  return (
    <main>
      <h1 ref={heading} tabIndex={-1}>
        {view.title}
      </h1>
      <view.content />
    </main>
  )
}

/** The first view is shown because the page was opened, and then the focus stays at the top of the page. */
let hasShownView = false

/** The next operator must not see what the previous one saw. */
function forgetAll(): void {
  forgetEvents()
  forgetResults()
  forgetCallers()
}
