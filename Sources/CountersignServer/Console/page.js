// The support page: looks up whatever a customer can read out, shows why, and lets a person ask Apple again, give
// access, move or attach a purchase, export or erase a user, and release the brake; lists refused notifications. Everything that is shown is text that was set as text; the key is
// in this closure and nowhere else.
'use strict'
;(() => {
  const byID = (id) => document.getElementById(id)
  const ui = {
    keyForm: byID('key-form'), key: byID('key'), keyState: byID('key-state'), forget: byID('forget'),
    searchForm: byID('search-form'), query: byID('query'), result: byID('result'),
    brake: byID('brake'), brakeTitle: byID('brake-title'), brakeText: byID('brake-text'), brakeForm: byID('brake-form'),
    refusedForm: byID('refused-form'), refusedList: byID('refused-list'),
    confirm: byID('confirm'), confirmTitle: byID('confirm-title'), confirmText: byID('confirm-text'),
    confirmYes: byID('confirm-yes'), confirmNo: byID('confirm-no'),
  }
  let key = null
  // What the page shows now: an answer to something that was asked before is dropped.
  let turn = 0
  let redraw = null

  // MARK: Making elements

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue
      if (name === 'on') for (const [event, action] of Object.entries(value)) element.addEventListener(event, action)
      else element.setAttribute(name, value === true ? '' : String(value))
    }
    for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child)
    return element
  }
  const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children)
  const svg = (name, attributes, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children)
  const bdi = (text) => el('bdi', {class: 'id'}, text)

  // MARK: Dates, in UTC as the service writes them; the reader's own time is in the tooltip

  const day = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', day: 'numeric', month: 'long', year: 'numeric'})
  const clock = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', hour: '2-digit', minute: '2-digit'})
  const date = (text) => `${day.format(new Date(text))}, ${clock.format(new Date(text))} UTC`
  const time = (text) => el('time', {datetime: text, title: `${new Date(text).toLocaleString()}, your time`}, date(text))

  // MARK: Asking the service

  class Refusal extends Error {
    constructor(status, problem) {
      super(problem.detail || `The service answered ${status}.`)
      this.status = status
      this.code = problem.code
      this.requestID = problem.request_id
    }
  }

  async function ask(method, path, body, headers = {}) {
    const ending = new AbortController()
    const timer = setTimeout(() => ending.abort(), 30000)
    let response
    try {
      response = await fetch(new URL(path.replace(/^\//, ''), document.baseURI), {
        method, signal: ending.signal, cache: 'no-store', credentials: 'omit', redirect: 'error',
        referrerPolicy: 'no-referrer',
        headers: {Authorization: `Bearer ${key}`, ...(body ? {'Content-Type': 'application/json'} : {}), ...headers},
        body: body ? JSON.stringify(body) : undefined,
      })
      const answer = await response.json()
      if (response.ok) return answer
      throw new Refusal(response.status, answer)
    } catch (error) {
      if (error instanceof Refusal) throw error
      throw new Error(response
        ? 'The service answered something that this page cannot read.'
        : 'The service cannot be reached. Nothing may have been done; look the user up again before you repeat it.')
    } finally {
      clearTimeout(timer)
    }
  }

  /// As `ask`, for what may be asked twice and is done once.
  async function askRepeatably(...request) {
    try { return await ask(...request) } catch (error) {
      if (error instanceof Refusal) throw error
      throw new Error('No answer came, so it may have been done or not. Press the button again: it is not done twice.')
    }
  }

  const userPath = (id, rest) => `v1/profiles/${encodeURIComponent(id)}${rest ? `/${rest}` : ''}`
  /// The owner of a purchase whose user was erased has no name.
  const isErased = (user) => user === '(erased)'
  const transactionPath = (id, rest = '') => `v1/transactions/${encodeURIComponent(id)}${rest}`

  // MARK: Telling the person, in the form that was used

  const message = () => el('p', {class: 'message', role: 'status', 'aria-live': 'polite'})

  function tell(form, text, tone = '') {
    const place = form.querySelector('.message')
    place.className = `message ${tone}`
    place.textContent = text
    if (text) place.scrollIntoView({block: 'nearest'})
  }

  function fail(form, error) {
    if (error.status === 401) {
      forget()
      tell(ui.keyForm, 'The service does not know this key. Type it again.', 'bad')
      return
    }
    const id = error.requestID ? ` (request ${error.requestID})` : ''
    tell(form, error.code === 'forbidden'
      ? 'This key may not do that: use one of the role “support”.' : `${error.message}${id}`, 'bad')
  }

  /// What a form's button says when it does not wait.
  const labels = new WeakMap()
  const buttonOf = (form) => form.querySelector('button[type=submit]')

  function busy(form, doing) {
    const button = buttonOf(form)
    if (!labels.has(button)) labels.set(button, button.textContent)
    button.disabled = true
    button.textContent = doing
    tell(form, '')
  }

  function idle(form) {
    const button = buttonOf(form)
    button.disabled = false
    if (labels.has(button)) button.textContent = labels.get(button)
  }

  /// Runs what a form asks for, once at a time; the form says how it went, unless it is no longer shown.
  async function work(form, doing, action) {
    if (buttonOf(form).disabled) return
    const mine = turn
    const isCurrent = () => mine === turn && form.isConnected
    busy(form, doing)
    try {
      await action(isCurrent)
    } catch (error) {
      if (isCurrent()) fail(form, error)
    } finally {
      idle(form)
      // A button that waits loses the focus.
      if (isCurrent() && document.activeElement === document.body) buttonOf(form).focus({preventScroll: true})
    }
  }

  function show(...children) {
    redraw = null
    ui.result.replaceChildren(...children)
    const heading = ui.result.querySelector('h2')
    if (heading) heading.focus()
  }

  function clear() {
    redraw = null
    ui.result.replaceChildren()
  }

  // MARK: The key

  function forget() {
    turn += 1
    key = null
    ui.key.value = ''
    ui.query.value = ''
    clear()
    idle(ui.searchForm)
    idle(ui.refusedForm)
    for (const form of [ui.keyForm, ui.searchForm, ui.brakeForm, ui.refusedForm]) tell(form, '')
    ui.brake.hidden = true
    ui.refusedForm.hidden = true
    ui.refusedList.hidden = true
    ui.refusedList.replaceChildren()
    ui.keyState.hidden = true
    ui.searchForm.hidden = true
    ui.keyForm.hidden = false
    ui.key.focus()
  }

  ui.keyForm.addEventListener('submit', (event) => {
    event.preventDefault()
    const typed = ui.key.value.trim()
    ui.key.value = ''
    if (!/^[\x21-\x7e]+$/.test(typed)) {
      tell(ui.keyForm, 'A key has letters, digits and signs, and no spaces.', 'bad')
      return
    }
    key = typed
    tell(ui.keyForm, '')
    ui.keyForm.hidden = true
    ui.keyState.hidden = false
    ui.searchForm.hidden = false
    ui.refusedForm.hidden = false
    ui.query.focus()
    const linked = linkedUser()
    if (linked) lookUp(linked)
    else lookAtBrake()
  })
  ui.forget.addEventListener('click', () => {
    link(null)
    forget()
  })
  addEventListener('pagehide', forget)

  // MARK: The link to a user: `#user=ID`. It is never sent to anybody, and holds no key.

  function link(user) {
    window.history.replaceState(null, '', user === null ? location.pathname + location.search
      : `#user=${encodeURIComponent(user)}`)
  }

  function linkedUser() {
    const match = /^#user=(.{1,400})$/.exec(location.hash)
    try { return match && decodeURIComponent(match[1]) } catch { return null }
  }

  addEventListener('hashchange', () => {
    const linked = linkedUser()
    if (key !== null && linked) lookUp(linked)
  })

  // MARK: Looking up

  ui.searchForm.addEventListener('submit', (event) => {
    event.preventDefault()
    const id = ui.query.value.trim()
    if (id) lookUp(id)
  })

  /// Takes the last customer off the page, whatever comes of it.
  async function showFor(id, action) {
    const mine = ++turn
    clear()
    link(null)
    ui.query.value = id
    busy(ui.searchForm, 'Looking…')
    try {
      await action(() => mine === turn)
      if (mine === turn) lookAtBrake()
    } catch (error) {
      if (mine !== turn) return
      fail(ui.searchForm, error)
      if (key !== null) ui.query.focus()
    } finally {
      if (mine === turn) idle(ui.searchForm)
    }
  }

  function lookUp(id) {
    return showFor(id, async (isCurrent) => {
      const found = await ask('GET', `v1/lookup/${encodeURIComponent(id)}`)
      if (!isCurrent()) return
      const [history, tiers] = found.user_id === null ? [null, []]
        : await Promise.all([readUser(found.user_id), tiersToGive()])
      if (!isCurrent()) return
      const cards = [
        ...found.purchases.map((purchase) => purchaseCard(purchase)),
        ...found.unowned.map((purchase) => unownedCard(purchase, found.app_store !== 'not_configured')),
      ]
      if (history) showUser(history, tiers, cards)
      else show(...(cards.length > 0 ? cards : [neverSeenCard(found)]))
      const [text, tone] = foundText(found, history)
      tell(ui.searchForm, text, tone)
    })
  }

  function lookUpUser(id) {
    return showFor(id, async (isCurrent) => {
      const [history, tiers] = await Promise.all([readUser(id), tiersToGive()])
      if (!isCurrent()) return
      showUser(history, tiers, [])
      tell(ui.searchForm, stateText(history))
    })
  }

  /// A user's history, with what was given to them.
  async function readUser(id) {
    const [history, given] = await Promise.all([ask('GET', userPath(id, 'history')), ask('GET', userPath(id, 'grants'))])
    return {...history, grants: given.grants}
  }

  /// Every tier but the lowest; none where the service does not tell them.
  async function tiersToGive() {
    try { return (await ask('GET', 'v1/plans')).plans.slice(1) } catch { return [] }
  }

  function lookUpTransaction(id) {
    return showFor(id, async (isCurrent) => {
      const found = await ask('GET', transactionPath(id))
      if (!isCurrent()) return
      show(...found.purchases.map((purchase) => purchaseCard(purchase)))
      tell(ui.searchForm, `The purchase belongs to ${found.purchases.map((one) => one.user_id).join(' and ')}.`)
    })
  }

  const stateText = (history) =>
    `User ${history.user_id}: the tier is ${history.now.tier}, ${words(history.now.status)}.`

  const ways = {
    original_transaction_id: 'Found by its original transaction ID', transaction_id: 'Found by a later transaction of it',
    order_id: 'Found by its order ID',
  }

  function foundText(found, history) {
    if (history) {
      const also = found.found_as.length > 1
        ? ' The same number is also the ID of a purchase: see below the history.' : ''
      return [stateText(history) + also, also ? 'warn' : '']
    }
    const [first] = found.found_as
    if (first === undefined) return ['Never seen here.', 'warn']
    const owners = [...new Set(found.purchases.map((one) => one.user_id))]
    return owners.length > 0
      ? [`${ways[first]}: the purchase belongs to ${owners.join(' and ')}.`, '']
      : [`${ways[first]}: no user has this purchase here.`, 'warn']
  }

  /// Nobody's: there is nothing to judge, to ask about or to move.
  function neverSeenCard(found) {
    const isNumber = /^[0-9]+$/.test(found.id)
    const asked = ['users and the original transaction IDs of purchases']
    if (isNumber) asked.push('the later transactions of purchases, as far as they are kept')
    // What is neither all digits nor about as long as an order ID is a name.
    const mayBeApples = isNumber || /^[0-9A-Za-z]{7,16}$/.test(found.id)
    const apple = !mayBeApples ? ['', ''] : {
      not_configured: ['There is no key of the App Store Server API (app_store.server_api): without one, order IDs and ' +
        'transactions that are not kept cannot be looked up.', 'warn'],
      answered: [`Apple was asked, and knows no such ${isNumber ? 'transaction' : 'order'} of this app.`, ''],
      unavailable: ['Apple could not be asked. Try again in a minute.', 'warn'],
    }[found.app_store] || ['', '']
    return el('section', {class: 'card', 'aria-labelledby': 'never-title'},
      el('h2', {id: 'never-title', tabindex: -1}, 'Never seen here: ', bdi(found.id)),
      el('p', null, 'No user and no purchase of this service has this ID. Is it typed correctly?'),
      el('p', {class: 'soft'}, `Searched: ${asked.join('; ')}.`),
      found.searched_all ? null : el('p', {class: 'notice warn'},
        'The search took too long and ended before everything was searched. An original transaction ID is found at once.'),
      apple[0] ? el('p', {class: `notice ${apple[1]}`}, apple[0]) : null)
  }

  // MARK: The brake

  async function lookAtBrake() {
    const mine = key
    let brake
    try { brake = await ask('GET', 'v1/brake') } catch { return }
    if (mine === null || mine !== key) return
    const byRules = typeof brake.withheld_by_rules === 'number' ? brake.withheld_by_rules : 0
    ui.brake.hidden = brake.engaged !== true && byRules === 0
    if (ui.brake.hidden) return
    const parts = []
    if (brake.engaged === true) parts.push('The service downgrades nobody on its own until somebody releases the brake.')
    if (brake.since) parts.push(`It was engaged on ${date(brake.since)}.`)
    if (typeof brake.looked_at === 'number' && typeof brake.lowered === 'number') {
      parts.push(`Of the ${brake.looked_at} verdicts of the day before, ${brake.lowered} downgraded somebody.`)
    }
    if (typeof brake.withheld === 'number') parts.push(`Verdicts held back since: ${brake.withheld}.`)
    if (byRules > 0) {
      parts.push(`A changed catalog or policy would downgrade ${byRules} of the users. They keep what they have until ` +
        'somebody fixes the configuration, or releases the brake.')
    }
    ui.brakeTitle.textContent =
      brake.engaged === true ? 'The downgrade brake is engaged' : 'A changed configuration is held back'
    ui.brakeText.textContent = parts.join(' ')
    tell(ui.brakeForm, '')
    buttonOf(ui.brakeForm).hidden = false
  }

  ui.brakeForm.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (!await confirmed('Release the brake?', 'Nothing is held back any longer: for an hour every verdict counts, and ' +
      'users who are downgraded lose access. Release it only when you know why so many subscriptions end at once.',
    'Release it')) return
    work(ui.brakeForm, 'Releasing…', async (isCurrent) => {
      await ask('DELETE', 'v1/brake')
      if (!isCurrent()) return
      ui.brakeTitle.textContent = 'The downgrade brake is released'
      ui.brakeText.textContent = ''
      buttonOf(ui.brakeForm).hidden = true
      tell(ui.brakeForm, 'Every verdict counts for an hour. After that the brake works again.', 'good')
    })
  })

  // MARK: Refused notifications

  ui.refusedForm.addEventListener('submit', (event) => {
    event.preventDefault()
    work(ui.refusedForm, 'Reading…', async (isCurrent) => {
      const refused = (await ask('GET', 'v1/notifications/refused')).notifications
      if (!isCurrent()) return
      ui.refusedList.replaceChildren(...refused.map((one) => el('li', null,
        el('p', null, time(one.received_at), ' ', el('strong', null, one.authentic ? 'Proven sender' : 'Unproven sender')),
        el('p', null, one.problem))))
      ui.refusedList.hidden = refused.length === 0
      tell(ui.refusedForm, refused.length === 0 ? 'None was refused.'
        : `${refused.length}, the newest first.`)
    })
  })

  // MARK: A state

  const words = (text) => String(text).replaceAll('_', ' ')
  const isTakenBack = (state) => state.reason === 'refunded' || state.reason === 'revoked'
  const isGiven = (state) => Boolean(state.decision && state.decision.grant_id)
  const endName = (state) => isTakenBack(state) ? 'Taken back on' : isGiven(state) ? 'Given until' : 'Paid until'

  function kind(state) {
    if (state.status === 'grace_period') return 'warn'
    if (state.status === 'expired') return 'bad'
    return state.status === 'active' && (state.original_transaction_id || isGiven(state)) ? 'good' : ''
  }

  /// - Parameters:
  ///   - periods: what was bought, where it is at hand.
  ///   - why: in place of the explanation.
  function stateParts(state, periods = [], why = null) {
    const takenBack = isTakenBack(state) && state.decision
      && periods.find((period) => period.transaction_id === state.decision.transaction_id)
    const rows = [
      ['Reason', words(state.reason)],
      [endName(state), state.expires_at && time(state.expires_at)],
      ['Had been paid until', takenBack && takenBack.ends_at && time(takenBack.ends_at)],
      ['Access until', state.access_until && time(state.access_until)],
      ['Product', state.product_id && bdi(state.product_id)],
      ['Next product', state.next_product_id && bdi(state.next_product_id)],
      ['Original transaction', state.original_transaction_id && bdi(state.original_transaction_id)],
      ['Store', state.environment],
      ['Apple said so on', state.evidence_at && time(state.evidence_at)],
    ].filter(([, value]) => value)
    return [
      el('p', {class: 'state'},
        el('span', {class: 'tier'}, state.tier),
        el('span', {class: `pill ${kind(state)}`}, words(state.status)),
        state.stale ? el('span', {class: 'pill warn'}, 'stale: not confirmed by Apple') : null,
        state.provisional ? el('span', {class: 'pill warn'}, 'provisional') : null,
        state.environment === 'sandbox' ? el('span', {class: 'pill warn'}, 'sandbox') : null),
      why || el('p', {class: 'why'}, state.explanation),
      el('dl', null, rows.map(([name, value]) => [el('dt', null, name), el('dd', null, value)])),
    ]
  }

  /// Takes a text to the clipboard, where the browser lets a page do that.
  function copyButton(text, name, label = 'Copy') {
    if (!navigator.clipboard) return null
    const button = el('button', {type: 'button', class: 'quiet small', 'aria-label': name}, label)
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(text)
        button.textContent = 'Copied'
      } catch { button.textContent = 'Not copied' }
      setTimeout(() => { button.textContent = label }, 2000)
    })
    return button
  }

  const title = (heading, ...buttons) => el('div', {class: 'title'}, heading, buttons)

  // MARK: A user

  /// - Parameters:
  ///   - tiers: those that can be given.
  ///   - more: what else the same ID is.
  function showUser(first, tiers, more) {
    const user = first.user_id
    let history = first
    let entries = [...first.entries]
    let next = first.next
    const state = el('div')
    const list = el('ol', {class: 'history'})
    const picture = el('div', {class: 'picture'})
    const olderForm = el('form', {autocomplete: 'off'},
      el('button', {type: 'submit', class: 'quiet'}, 'Older entries'), message())
    const form = revalidationForm(user, refresh)
    const given = givenCard(user, tiers, refresh)
    const nothing = el('p', {class: 'soft'}, 'Nothing has happened yet.')

    function paint() { draw(picture, history, entries) }

    function render() {
      const purchases = [...new Set(history.periods.map((period) => period.original_transaction_id))]
      const moved = movedAway(user, entries)
      const why = purchases.length === 0 && moved.length > 0 && !isGiven(history.now)
        ? el('div', {class: 'moved why'}, moved.map(movedText)) : null
      state.replaceChildren(
        ...stateParts(history.now, history.periods, why),
        ...(why ? [] : moved.map((change) => el('div', {class: 'moved soft'}, movedText(change)))),
        el('ul', {class: 'purchases', 'aria-label': 'Purchases', hidden: purchases.length === 0}, purchases.map((id) =>
          el('li', null, 'Purchase ', bdi(id), copyButton(id, `Copy the transaction ID ${id}`), el('button', {
            type: 'button', class: 'quiet small', 'aria-label': `Show or move the purchase ${id}`,
            on: {click: () => lookUpTransaction(id)},
          }, 'Show or move')))))
      // Nothing is kept that Apple could be asked about.
      form.hidden = purchases.length === 0
      given.show(history)
      nothing.hidden = entries.length > 0
      list.replaceChildren(...folded(entries))
      buttonOf(olderForm).hidden = !next
      paint()
    }

    /// Reads the user anew, in place: what was just done stays in view.
    /// - Returns: how they stand now.
    async function refresh(isCurrent) {
      const page = await readUser(user)
      if (!isCurrent()) return null
      history = page
      entries = [...page.entries]
      next = page.next
      render()
      // What was told of them before may be so no longer.
      for (const told of document.querySelectorAll('#search-form .message, #result .message')) told.textContent = ''
      return page.now
    }

    olderForm.addEventListener('submit', (event) => {
      event.preventDefault()
      work(olderForm, 'Reading…', async (isCurrent) => {
        const page = await ask('GET', next)
        if (!isCurrent()) return
        entries.push(...page.entries)
        next = page.next
        render()
        tell(olderForm, next ? `${entries.length} entries are shown.` : `All ${entries.length} entries are shown.`)
      })
    })

    show(
      el('section', {class: 'card', 'aria-labelledby': 'user-title'},
        title(el('h2', {id: 'user-title', tabindex: -1}, 'User ', bdi(user)),
          copyButton(user, 'Copy the user ID'),
          copyButton(`${location.href.split('#')[0]}#user=${encodeURIComponent(user)}`, 'Copy a link to this user',
            'Copy link')),
        state),
      el('section', {class: 'card', 'aria-labelledby': 'picture-title'},
        el('h2', {id: 'picture-title'}, 'Timeline'), picture),
      form,
      given.card,
      el('section', {class: 'card', 'aria-labelledby': 'history-title'},
        el('h2', {id: 'history-title'}, 'History'), nothing, list, olderForm),
      privacyCard(user),
      ...more)
    render()
    link(user)
    redraw = paint
  }

  /// The purchases that went to somebody else and have not come back, as far as the entries go.
  function movedAway(user, entries) {
    const told = new Set()
    return entries.filter((entry) => {
      if (entry.kind !== 'ownership_change') return false
      const purchase = `${entry.environment} ${entry.original_transaction_id}`
      if (told.has(purchase)) return false
      told.add(purchase)
      return entry.from_user_id === user && entry.to_user_id !== user
    })
  }

  function movedText(change) {
    return [
      el('p', null, 'The purchase ', bdi(change.original_transaction_id), ' was moved to ', bdi(change.to_user_id), ' on ',
        time(change.recorded_at), '. ',
        isErased(change.to_user_id) ? null
          : el('button', {type: 'button', class: 'quiet small', 'aria-label': `Show the user ${change.to_user_id}`,
            on: {click: () => lookUpUser(change.to_user_id)}}, 'Show the user')),
      noteOf(change),
    ]
  }

  const noteOf = (entry) => entry.note === null || entry.note === undefined ? null : el('p', {class: 'said'},
    el('small', null, `Note of ${entry.asked_by}`), el('bdi', null, entry.note))

  const kinds = {verdict: 'Verdict', ownership_change: 'Owner', revalidation: 'Apple asked again'}

  /// Verdicts that change nothing, two or more in a row, are one line to be opened.
  function folded(entries) {
    const items = []
    let run = []
    const close = () => {
      if (run.length < 2) items.push(...run.map(entryItem))
      else {
        const [last, first] = [run[0], run[run.length - 1]].map((entry) => day.format(new Date(entry.recorded_at)))
        items.push(el('li', {class: 'folded'}, el('details', null,
          el('summary', null, `${run.length} verdicts without a change, ${first === last ? first : `${first} to ${last}`}`),
          el('ol', {class: 'history'}, run.map(entryItem)))))
      }
      run = []
    }
    for (const entry of entries) {
      if (entry.kind === 'verdict' && entry.changed === false && !entry.note) run.push(entry)
      else {
        close()
        items.push(entryItem(entry))
      }
    }
    close()
    return items
  }

  function entryItem(entry) {
    const verdict = entry.kind === 'verdict' && el('span', {class: `pill ${kind(entry)}`},
      `${entry.tier}, ${words(entry.status)}`)
    const known = [
      ['Reason', entry.reason && words(entry.reason)],
      [endName(entry), entry.expires_at && date(entry.expires_at)],
      ['Access until', entry.access_until && date(entry.access_until)],
      ['Product', entry.product_id],
      ['Original transaction', entry.original_transaction_id],
      ['Store', entry.environment],
      ['From', entry.from_user_id],
      ['To', entry.to_user_id],
      ['Apple said so on', entry.evidence_at && date(entry.evidence_at)],
      ['Line of the rules', entry.decision && entry.decision.line],
      ['Setting', entry.decision && entry.decision.policy &&
        `${entry.decision.policy.key}: ${entry.decision.policy.value}`],
      ['Request', entry.request_id],
    ].filter(([, value]) => value)
    return el('li', {class: 'entry'},
      el('p', {class: 'when'}, el('strong', null, kinds[entry.kind] || words(entry.kind)), verdict || null,
        time(entry.recorded_at)),
      el('p', null, entry.explanation), noteOf(entry),
      el('details', null, el('summary', null, 'Details'),
        el('dl', null, known.map(([name, value]) => [el('dt', null, name), el('dd', null, bdi(String(value)))]))))
  }

  // MARK: Fields, each with its own complaint

  function field(control, label) {
    const complaint = el('p', {id: `${control.id}-error`, class: 'field-error', role: 'alert'})
    control.setAttribute('aria-describedby', complaint.id)
    control.addEventListener('input', () => complain(control, ''))
    return el('div', {class: 'field'}, el('label', {for: control.id}, label), control, complaint)
  }

  function complain(control, text) {
    byID(`${control.id}-error`).textContent = text
    if (text) {
      control.setAttribute('aria-invalid', 'true')
      control.focus()
    } else control.removeAttribute('aria-invalid')
  }

  /// What is in a field; `null`, and the field complains, where there is nothing.
  function needed(control, complaint) {
    const text = control.value.trim()
    complain(control, text ? '' : complaint)
    return text || null
  }

  const noteBox = (id) => el('textarea', {id, maxlength: 1000, 'aria-required': 'true', rows: 3})
  const userBox = (id, value = '') => el('input', {id, type: 'text', maxlength: 128, 'aria-required': 'true',
    spellcheck: 'false', autocapitalize: 'none', autocomplete: 'off', value})

  function revalidationForm(user, refresh) {
    const note = noteBox('ask-note')
    const form = el('form', {class: 'card', autocomplete: 'off', novalidate: true, 'aria-labelledby': 'ask-title'},
      el('h2', {id: 'ask-title'}, 'Ask Apple again'),
      el('p', {class: 'soft'}, 'About everything this user owns. The note is kept in the history.'),
      field(note, 'Note: why do you ask?'),
      el('button', {type: 'submit'}, 'Ask Apple again'), message())
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      const text = needed(note, 'Say in the note why you ask.')
      if (text === null) return
      work(form, 'Asking…', async (isCurrent) => {
        const answer = await ask('POST', userPath(user, 'revalidation'), {note: text})
        if (!isCurrent()) return
        note.value = ''
        const [outcome, tone] = answer.stale
          ? ['Apple could not be asked about everything. The last proven state stands.', 'warn'] : ['Asked.', 'good']
        await refreshed(form, refresh, isCurrent, outcome, tone)
      })
    })
    return form
  }

  /// Tells the outcome, and how the user stands, once the page shows it; or that it does not.
  async function refreshed(form, refresh, isCurrent, outcome, tone) {
    let now
    try { now = await refresh(isCurrent) } catch {
      if (isCurrent()) tell(form, `${outcome} The rest of this page is out of date: look the ID up again.`, 'warn')
      return
    }
    if (isCurrent()) tell(form, `${outcome} The tier is ${now.tier}, ${words(now.status)}.`, tone)
  }

  // MARK: Access that is given

  const lengths = [['1d', '1 day'], ['7d', '7 days'], ['30d', '30 days'], ['365d', '1 year'], ['', 'until a date']]
  const grantKinds = ['support', 'promotion', 'tester', 'migration'].map((name) => [name, name])
  const select = (id, choices) =>
    el('select', {id}, choices.map(([value, text]) => el('option', {value}, text)))

  /// What was given to a user, and the form that gives more.
  function givenCard(user, tiers, refresh) {
    const items = new Map()
    const list = el('ol', {class: 'given', 'aria-labelledby': 'given-title'})
    const nothing = el('p', {class: 'soft'}, 'Nothing was given to this user yet.')
    const tier = tiers.length > 0
      ? select('grant-tier', tiers.map(({tier, name}) => [tier, name && name !== tier ? `${name} (${tier})` : tier]))
      : el('input', {id: 'grant-tier', type: 'text', maxlength: 128, 'aria-required': 'true', spellcheck: 'false',
        autocapitalize: 'none', autocomplete: 'off'})
    const length = select('grant-length', lengths)
    const until = el('input', {id: 'grant-until', type: 'datetime-local', max: '9999-12-31T23:59',
      'aria-required': 'true'})
    const untilField = field(until, 'Until (UTC)')
    const why = select('grant-kind', grantKinds)
    const note = noteBox('grant-note')
    const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': 'give-title'},
      el('h3', {id: 'give-title'}, 'Give access'),
      el('p', {class: 'soft'}, 'For a time, beside what was bought. The note is kept in the history.'),
      el('div', {class: 'fields'}, field(tier, 'Tier'), field(length, 'How long'), untilField, field(why, 'Kind')),
      field(note, 'Note: why is it given?'), el('button', {type: 'submit'}, 'Give access'), message())
    // The last thing that was sent, and the key under which it is given once, however often it is sent.
    let sent = {}

    untilField.hidden = true
    length.addEventListener('change', () => { untilField.hidden = length.value !== '' })
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      const name = needed(tier, 'Name the tier.')
      const end = length.value === '' && name !== null ? needed(until, 'Say until when: a date and a time.') : ''
      const text = name === null || end === null ? null : needed(note, 'Say in the note why it is given.')
      if (text === null) return
      const grant = {tier: name, kind: why.value, note: text,
        ...(end ? {ends_at: `${end.length === 16 ? `${end}:00` : end}Z`} : {for: length.value})}
      const body = JSON.stringify(grant)
      if (sent.body !== body) sent = {body, key: randomKey()}
      work(form, 'Giving…', async (isCurrent) => {
        const given = await askRepeatably('POST', userPath(user, 'grants'), grant, {'Idempotency-Key': sent.key})
        sent = {}
        if (!isCurrent()) return
        note.value = ''
        await refreshed(form, refresh, isCurrent, `Given: ${given.tier} until ${date(given.ends_at)}.`, 'good')
      })
    })

    function show({grants, now}) {
      const moment = at(now.decision.judged_at || new Date().toISOString())
      const isRunning = (grant) => !grant.ended_early && moment < at(grant.ends_at)
      for (const grant of grants) {
        if (!items.has(grant.id)) items.set(grant.id, givenItem(user, grant, refresh))
        items.get(grant.id).show(grant, isRunning(grant))
      }
      const sorted = [...grants.filter(isRunning), ...grants.filter((grant) => !isRunning(grant))]
      list.replaceChildren(...sorted.map((grant) => items.get(grant.id).item))
      nothing.hidden = grants.length > 0
    }

    const card = el('section', {class: 'card', 'aria-labelledby': 'given-title'},
      el('h2', {id: 'given-title'}, 'Access that was given'), nothing, list, form)
    return {card, show}
  }

  /// `crypto.randomUUID` is missing where the page came without TLS.
  const randomKey = () =>
    [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

  /// One grant, with what ends it.
  function givenItem(user, {id, tier}, refresh) {
    const about = el('div')
    const note = noteBox(`end-note-${id}`)
    const open = el('button', {type: 'button', class: 'quiet small', 'aria-label': `End now: the grant of ${tier}`},
      'End now')
    const leave = el('button', {type: 'button', class: 'quiet'}, 'Leave it')
    const fields = el('div', {class: 'ending', hidden: true}, field(note, 'Note: why is it ended?'),
      el('div', {class: 'row'}, el('button', {type: 'submit', class: 'danger'}, 'End it'), leave))
    const said = message()
    said.tabIndex = -1
    const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-label': `End the grant of ${tier}`},
      open, fields, said)

    function unfold(isOpen) {
      open.hidden = isOpen
      fields.hidden = !isOpen
    }

    open.addEventListener('click', () => {
      unfold(true)
      tell(form, '')
      note.focus()
    })
    leave.addEventListener('click', () => {
      unfold(false)
      complain(note, '')
      tell(form, '')
      open.focus()
    })
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      const text = needed(note, 'Say in the note why it is ended.')
      if (text === null) return
      work(form, 'Ending…', async (isCurrent) => {
        const ended = await askRepeatably('DELETE', userPath(user, `grants/${encodeURIComponent(id)}`), {note: text})
        if (!isCurrent()) return
        note.value = ''
        await refreshed(form, refresh, isCurrent, `Ended on ${date(ended.ends_at)}.`, 'good')
        if (isCurrent()) said.focus()
      })
    })

    function show(grant, isRunning) {
      const [state, tone] = isRunning ? ['running', 'good'] : [grant.ended_early ? 'ended early' : 'over', '']
      about.replaceChildren(
        el('p', {class: 'when'}, el('strong', null, grant.tier), el('span', {class: `pill ${tone}`}, state),
          el('span', {class: 'soft'}, words(grant.kind))),
        el('p', null, 'From ', time(grant.starts_at), ' until ', time(grant.ends_at), ', by ', bdi(grant.author), '.'),
        ...[noteOf({note: grant.note, asked_by: grant.author})].filter(Boolean))
      if (isRunning) return
      open.hidden = true
      fields.hidden = true
    }

    return {item: el('li', null, about, form), show}
  }

  // MARK: What is kept of a user

  function privacyCard(user) {
    const exportForm = el('form', {autocomplete: 'off', 'aria-labelledby': 'export-title'},
      el('h3', {id: 'export-title'}, 'Export'),
      el('p', {class: 'soft'}, 'Everything that is kept of this user, as a file for them. It holds their receipts: send it ' +
        'to nobody else.'),
      el('button', {type: 'submit', class: 'quiet'}, 'Export'), message())
    const typed = userBox('erase-id')
    const eraseForm = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': 'erase-title'},
      el('h3', {id: 'erase-title'}, 'Erase'),
      el('p', {class: 'soft'}, 'For ever. Purchases stay without the name, so that nobody else gets them; so do the devices ' +
        'of trials. Export first, if the user wants a copy, and delete the account in the app, or it comes back.'),
      field(typed, 'Type the user ID to confirm'),
      el('button', {type: 'submit', class: 'danger'}, 'Erase this user'), message())

    exportForm.addEventListener('submit', (event) => {
      event.preventDefault()
      work(exportForm, 'Exporting…', async (isCurrent) => {
        const kept = await ask('GET', userPath(user, 'export'))
        if (!isCurrent()) return
        save(kept, 'countersign-export.json')
        tell(exportForm, `Exported. Purchases: ${kept.purchases.length}; lines of the history: ${kept.history.length}.`, 'good')
      })
    })
    eraseForm.addEventListener('submit', (event) => {
      event.preventDefault()
      const text = needed(typed, 'Type the user ID.')
      if (text === null) return
      if (text !== user) {
        complain(typed, 'This is not the ID of the user shown here. Nothing was erased.')
        return
      }
      work(eraseForm, 'Erasing…', async (isCurrent) => {
        const erased = await askRepeatably('DELETE', userPath(user))
        if (!isCurrent()) return
        turn += 1
        clear()
        link(null)
        ui.query.value = ''
        tell(ui.searchForm, `Erased. Kept without the name: purchases ${erased.kept.purchases}, lines of the history ` +
          `${erased.kept.history}. ${rowAfterErasure[erased.profile_write] || ''}`, erased.profile_write === 'queued' ? 'warn' : 'good')
        ui.query.focus()
      })
    })
    return el('section', {class: 'card', 'aria-labelledby': 'privacy-title'},
      el('h2', {id: 'privacy-title'}, 'What is kept of this user'), exportForm, eraseForm)
  }

  const rowAfterErasure = {
    committed: 'The profile row is reset.', missing: 'There is no profile row.', none: '',
    queued: 'The profile row is not reset yet: the ID is kept until it is.',
  }

  /// Has the browser save a value as a file.
  function save(value, name) {
    const url = URL.createObjectURL(new Blob([`${JSON.stringify(value, null, 2)}\n`], {type: 'application/json'}))
    const anchor = el('a', {href: url, download: name, hidden: true})
    document.body.append(anchor)
    anchor.click()
    anchor.remove()
    setTimeout(() => URL.revokeObjectURL(url), 10000)
  }

  // MARK: A purchase

  const nameOf = (purchase) => `${purchase.original_transaction_id}-${purchase.environment}`

  const purchaseTitle = (purchase) => {
    const id = purchase.original_transaction_id
    return title(el('h2', {id: `purchase-${nameOf(purchase)}`, tabindex: -1}, 'Purchase ', bdi(id)),
      copyButton(id, `Copy the transaction ID ${id}`))
  }

  /// - Parameter outcome: of what was just done with it.
  function purchaseCard(first, outcome = null) {
    const id = first.original_transaction_id
    const name = nameOf(first)
    const [to, note] = [userBox(`to-${name}`), noteBox(`why-${name}`)]
    const about = el('div')
    let purchase = first
    const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': `move-${name}`},
      el('h3', {id: `move-${name}`}, 'Move it to another user'),
      el('p', {class: 'soft'}, 'Both users are re-evaluated at once, and the note is kept in the history of both.'),
      field(to, 'User ID of the new owner'), field(note, 'Note: why is it moved?'),
      el('button', {type: 'submit', class: 'danger'}, 'Move the purchase…'), message())

    function render() {
      about.replaceChildren(
        el('p', null, 'Belongs to ', bdi(purchase.user_id),
          purchase.owned_since ? [' since ', time(purchase.owned_since)] : null, '. ',
          isErased(purchase.user_id) ? 'Its user was erased: nobody gets it by presenting it, until you move it.'
            : el('button', {type: 'button', class: 'quiet small', 'aria-label': `Show the user ${purchase.user_id}`,
              on: {click: () => lookUpUser(purchase.user_id)}}, 'Show the user')),
        el('h3', null, 'What it gives by itself'),
        ...stateParts(purchase.state),
        el('h3', null, 'Owners'),
        el('ol', {class: 'history'}, purchase.ownership_changes.map((change) => el('li', null,
          el('p', {class: 'when'}, el('strong', null, change.from_user_id
            ? ['from ', bdi(change.from_user_id), ' to ', bdi(change.to_user_id)]
            : ['first presented by ', bdi(change.to_user_id)]), time(change.recorded_at)),
          noteOf(change)))))
    }

    form.addEventListener('submit', async (event) => {
      event.preventDefault()
      const owner = needed(to, 'Name the new owner.')
      const text = owner === null ? null : needed(note, 'Say in the note why it is moved.')
      if (text === null) return
      if (!await confirmed('Move the purchase?', `The purchase ${id} moves from ${purchase.user_id} to ${owner}. ` +
        `${purchase.user_id} loses what it gives at once.`, 'Move it')) return
      work(form, 'Moving…', async (isCurrent) => {
        const moved = await ask('POST', transactionPath(id, '/transfer'),
          {to: owner, note: text, environment: purchase.environment})
        if (!isCurrent()) return
        purchase = moved
        to.value = ''
        note.value = ''
        render()
        // What was found is no longer so.
        tell(ui.searchForm, '')
        tell(form, `Moved. The purchase belongs to ${moved.user_id} now.`, 'good')
      })
    })
    render()
    return el('section', {class: 'card', 'aria-labelledby': `purchase-${name}`}, purchaseTitle(first),
      outcome === null ? null : el('p', {class: 'message good', role: 'status', tabindex: -1}, outcome), about, form)
  }

  /// A purchase that nobody has here.
  function unownedCard(purchase, canAttach) {
    const id = purchase.original_transaction_id
    const name = nameOf(purchase)
    const rows = [['Product', purchase.product_id && bdi(purchase.product_id)], ['Store', purchase.environment],
      ['Made for the account', purchase.app_account_token && bdi(purchase.app_account_token)]].filter(([, value]) => value)
    const card = el('section', {class: 'card', 'aria-labelledby': `purchase-${name}`}, purchaseTitle(purchase),
      el('p', null, 'No user has it here. ', purchase.told_by === 'notification'
        ? 'Apple reported it in a notification.' : 'Apple was asked just now, and knows it.'),
      el('dl', null, rows.map(([label, value]) => [el('dt', null, label), el('dd', null, value)])))
    if (!canAttach) {
      card.append(el('p', {class: 'notice warn'}, 'There is no key of the App Store Server API (app_store.server_api): ' +
        'without one it cannot be attached to a user. The customer can present it: “Restore purchases” in the app.'))
      return card
    }
    const [to, note] = [userBox(`to-${name}`, purchase.app_account_token || ''), noteBox(`why-${name}`)]
    const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': `attach-${name}`},
      el('h3', {id: `attach-${name}`}, 'Attach it to a user'),
      el('p', {class: 'soft'}, 'Apple is asked about it, and the user is re-evaluated. The note is kept in the history.'),
      field(to, 'User ID of the owner'), field(note, 'Note: how do you know that it is theirs?'),
      el('button', {type: 'submit'}, 'Attach the purchase'), message())
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      const owner = needed(to, 'Name the owner.')
      const text = owner === null ? null : needed(note, 'Say in the note how you know that it is theirs.')
      if (text === null) return
      work(form, 'Attaching…', async (isCurrent) => {
        const attached = await ask('POST', transactionPath(id, '/transfer'),
          {to: owner, note: text, environment: purchase.environment})
        if (!isCurrent()) return
        const owned = purchaseCard(attached, `Attached. The purchase belongs to ${attached.user_id} now.`)
        card.replaceWith(owned)
        tell(ui.searchForm, '')
        owned.querySelector('.message').focus()
      })
    })
    card.append(form)
    return card
  }

  /// Asks once more. What does no harm is what Enter does.
  function confirmed(question, text, yes) {
    ui.confirmTitle.textContent = question
    ui.confirmText.textContent = text
    ui.confirmYes.textContent = yes
    return new Promise((resolve) => {
      const before = document.activeElement
      const done = new AbortController()
      const end = (answer) => {
        done.abort()
        ui.confirm.close()
        if (before && before.isConnected) before.focus()
        resolve(answer)
      }
      ui.confirmYes.addEventListener('click', () => end(true), {signal: done.signal})
      ui.confirmNo.addEventListener('click', () => end(false), {signal: done.signal})
      ui.confirm.addEventListener('cancel', (event) => { event.preventDefault(); end(false) }, {signal: done.signal})
      ui.confirm.showModal()
      ui.confirmNo.focus()
    })
  }

  // MARK: The picture

  const at = (text) => Date.parse(text)

  /// How a verdict is drawn.
  function look(verdict) {
    if (verdict.reason === 'billing_grace') return 'grace'
    if (verdict.reason === 'billing_retry') return 'retry'
    if (isGiven(verdict)) return 'given'
    if (!verdict.original_transaction_id || verdict.status === 'expired') return 'none'
    return verdict.status === 'cancelled' ? 'cancelled' : 'active'
  }

  const looks = {
    active: 'access', cancelled: 'access, renewal off', given: 'access that was given', grace: 'grace period',
    retry: 'billing retry', none: 'no access', held: 'ended, not confirmed by Apple',
  }

  /// What the service decided when: each verdict holds until the next one, its access until it ends.
  function decided(entries, now) {
    const verdicts = entries.filter((entry) => entry.kind === 'verdict').reverse()
      .map((entry) => ({...entry, from: at(entry.recorded_at)}))
    const parts = []
    verdicts.forEach((verdict, index) => {
      const following = verdicts[index + 1]
      const until = following ? following.from : Math.max(now, verdict.from)
      const end = verdict.access_until ? at(verdict.access_until) : null
      const state = look(verdict)
      const held = end !== null && end < until
      parts.push({from: verdict.from, until: held ? Math.max(end, verdict.from) : until, state, words: verdict.explanation})
      if (held) {
        // The end of what was given needs no word of Apple's.
        const after = state === 'given' ? 'none' : 'held'
        parts.push({from: Math.max(end, verdict.from), until, state: after, words: looks[after]})
      }
      if (!following && end !== null && end > until) {
        parts.push({from: until, until: end, state, isFuture: true, words: verdict.explanation})
      }
    })
    return parts.filter((part) => part.until > part.from)
  }

  function draw(box, history, entries) {
    const now = at(history.now.decision.judged_at || new Date().toISOString())
    const access = decided(entries, now)
    const periods = history.periods.slice(0, 6).filter((period) => period.starts_at || period.ends_at)
    const events = entries.filter((entry) => entry.kind !== 'verdict')
    const moments = [now, ...access.flatMap((part) => [part.from, part.until]), ...events.map((e) => at(e.recorded_at)),
      ...periods.flatMap((period) => [period.starts_at, period.ends_at, period.taken_back_at, period.grace_until,
        period.retry_until].filter(Boolean).map(at))]
    if (entries.length === 0 && periods.length === 0) {
      box.replaceChildren(el('p', {class: 'soft'}, 'Nothing to draw yet.'))
      return
    }
    const span = Math.max(Math.max(...moments) - Math.min(...moments), 86400000)
    const first = Math.min(...moments) - span * 0.03
    const last = Math.max(...moments) + span * 0.04
    const width = Math.max(280, box.clientWidth || 700)
    const x = (moment) => Math.round((Math.min(Math.max(moment, first), last) - first) / (last - first) * width * 10) / 10
    const bars = []
    const used = new Set()
    let y = 22

    const lane = (name) => { bars.push(svg('text', {class: 'lane', x: 0, y: y + 12}, name)); y += 18 }
    const bar = (from, until, state, title, isFuture) => {
      used.add(state)
      const left = x(from)
      const size = {x: left, y, width: Math.max(2, x(until) - left), height: 16, rx: 3}
      bars.push(svg('rect', {...size, class: `s-${state}${isFuture ? ' future' : ''}`}, svg('title', null, title)))
      if (state === 'grace' || state === 'retry') {
        bars.push(svg('rect', {...size, fill: `url(#${state}-hatch)`, 'pointer-events': 'none'}))
      }
    }

    if (access.length > 0) {
      lane('Access, as decided')
      for (const part of access) bar(part.from, part.until, part.state, part.words, part.isFuture)
      y += 26
    }
    for (const period of periods) {
      lane(`${period.product_id}${period.is_trial ? ' (trial)' : ''}${period.is_upgraded ? ' (upgraded)' : ''}`)
      const begin = at(period.starts_at || period.ends_at)
      const paid = period.ends_at ? at(period.ends_at) : last
      const end = period.taken_back_at ? Math.min(paid, Math.max(at(period.taken_back_at), begin)) : paid
      const title = period.ends_at ? `Paid from ${date(period.starts_at || period.ends_at)} to ${date(period.ends_at)}`
        : 'Bought for life'
      bar(begin, end, period.is_upgraded ? 'none' : 'active', title, end > now && begin > now)
      if (period.grace_until) bar(paid, at(period.grace_until), 'grace', `Grace period to ${date(period.grace_until)}`)
      if (period.retry_until) bar(paid, at(period.retry_until), 'retry', `Billing retry to ${date(period.retry_until)}`)
      if (period.taken_back_at) {
        used.add('refund')
        const cross = x(at(period.taken_back_at))
        bars.push(svg('path', {class: 'refund', d: `M${cross - 6} ${y + 2}l12 12m0 -12l-12 12`},
          svg('title', null, `Apple took it back on ${date(period.taken_back_at)}`)))
      }
      y += 26
    }
    if (events.length > 0) {
      lane('Requests and changes of owner')
      for (const entry of events) {
        const middle = x(at(entry.recorded_at))
        const title = svg('title', null, `${date(entry.recorded_at)}: ${entry.note || entry.explanation}`)
        if (entry.kind === 'revalidation') {
          used.add('note')
          bars.push(svg('circle', {class: 'm-note', cx: middle, cy: y + 8, r: 6}, title))
        } else {
          used.add('owner')
          bars.push(svg('path', {class: 'm-owner', d: `M${middle} ${y}l8 8l-8 8l-8 -8z`}, title))
        }
      }
      y += 24
    }

    const grid = ticks(first, last, width).map(({moment, text}) => [
      svg('line', {class: 'grid', x1: x(moment), y1: 18, x2: x(moment), y2: y}),
      svg('text', {x: Math.min(Math.max(x(moment), 32), width - 32), y: y + 14, 'text-anchor': 'middle'}, text),
    ])
    const here = x(now)
    const summary = [...access].reverse().map((part) =>
      `${looks[part.state]} from ${date(new Date(part.from).toISOString())} to ${date(new Date(part.until).toISOString())}`)
    box.replaceChildren(
      svg('svg', {viewBox: `0 0 ${width} ${y + 22}`, role: 'img', 'aria-labelledby': 'drawing-title drawing-text'},
        svg('title', {id: 'drawing-title'}, 'Timeline of access and purchases'),
        svg('desc', {id: 'drawing-text'}, `${summary.join('; ')}. The history below says the same in words.`),
        svg('defs', null, hatch('grace', 45), hatch('retry', -45)),
        grid, bars,
        svg('line', {class: 'now', x1: here, y1: 14, x2: here, y2: y}),
        svg('text', {class: 'now-label', x: Math.min(Math.max(here, 16), width - 16), y: 11, 'text-anchor': 'middle'},
          'now')),
      el('ul', {class: 'legend', 'aria-hidden': 'true'}, legend(used)))
  }

  function hatch(name, angle) {
    return svg('pattern', {id: `${name}-hatch`, width: 7, height: 7, patternUnits: 'userSpaceOnUse',
      patternTransform: `rotate(${angle})`}, svg('line', {class: 'hatch', x1: 0, y1: 0, x2: 0, y2: 7}))
  }

  function legend(used) {
    const swatch = (...shapes) => svg('svg', {viewBox: '0 0 22 12'}, shapes)
    const box = {x: 1, y: 1, width: 20, height: 10, rx: 2}
    const items = Object.entries(looks).filter(([state]) => used.has(state)).map(([state, text]) =>
      [swatch(svg('rect', {...box, class: `s-${state}`}), state === 'grace' || state === 'retry'
        ? svg('rect', {...box, fill: `url(#${state}-hatch)`}) : null), text])
    if (used.has('refund')) items.push([swatch(svg('path', {class: 'refund', d: 'M6 2l8 8m0 -8l-8 8'})), 'taken back'])
    if (used.has('note')) items.push([swatch(svg('circle', {class: 'm-note', cx: 11, cy: 6, r: 5})), 'Apple asked again'])
    if (used.has('owner')) {
      items.push([swatch(svg('path', {class: 'm-owner', d: 'M11 0l6 6l-6 6l-6 -6z'})), 'change of owner'])
    }
    return items.map(([shape, text]) => el('li', null, shape, text))
  }

  /// The first days of months (or single days), as many as there is room for.
  function ticks(first, last, width) {
    const room = Math.max(2, Math.floor(width / 90))
    const days = (last - first) / 86400000
    const found = []
    if (days <= 45) {
      const step = Math.max(1, Math.ceil(days / room))
      const short = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', day: 'numeric', month: 'short'})
      for (let moment = Math.ceil(first / 86400000) * 86400000; moment <= last; moment += step * 86400000) {
        found.push({moment, text: short.format(moment)})
      }
      return found
    }
    const months = days / 30.4
    const step = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((size) => months / size <= room) || 600
    const short = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', month: 'short', year: 'numeric'})
    const start = new Date(first)
    let month = start.getUTCFullYear() * 12 + start.getUTCMonth() + 1
    month = Math.ceil(month / step) * step
    for (; found.length <= room + 1; month += step) {
      const moment = Date.UTC(Math.floor(month / 12), month % 12, 1)
      if (moment > last) break
      found.push({moment, text: short.format(moment)})
    }
    return found
  }

  let resizing = null
  addEventListener('resize', () => {
    cancelAnimationFrame(resizing)
    resizing = requestAnimationFrame(() => { if (redraw) redraw() })
  })

  forget()
})()
