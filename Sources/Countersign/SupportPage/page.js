// The support page: looks up a user or a purchase, shows why, and lets a person ask Apple again or move a purchase.
// Everything that is shown is text that was set as text; the key is in this closure and nowhere else.
'use strict'
;(() => {
  const byID = (id) => document.getElementById(id)
  const ui = {
    keyForm: byID('key-form'), key: byID('key'), keyState: byID('key-state'), forget: byID('forget'),
    searchForm: byID('search-form'), query: byID('query'), status: byID('status'), alert: byID('alert'),
    result: byID('result'), confirm: byID('confirm'), confirmText: byID('confirm-text'),
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

  // MARK: Dates, in UTC as the service writes them

  const day = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', day: 'numeric', month: 'long', year: 'numeric'})
  const clock = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', hour: '2-digit', minute: '2-digit'})
  const date = (text) => `${day.format(new Date(text))}, ${clock.format(new Date(text))} UTC`
  const time = (text) => el('time', {datetime: text}, date(text))

  // MARK: Asking the service

  class Refusal extends Error {
    constructor(status, problem) {
      super(problem.detail || `The service answered ${status}.`)
      this.status = status
      this.code = problem.code
      this.requestID = problem.request_id
    }
  }

  async function ask(method, path, body) {
    const ending = new AbortController()
    const timer = setTimeout(() => ending.abort(), 30000)
    let response
    try {
      response = await fetch(new URL(path.replace(/^\//, ''), document.baseURI), {
        method, signal: ending.signal, cache: 'no-store', credentials: 'omit', redirect: 'error',
        referrerPolicy: 'no-referrer',
        headers: {Authorization: `Bearer ${key}`, ...(body ? {'Content-Type': 'application/json'} : {})},
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

  // MARK: Telling the person

  function say(text) { ui.status.textContent = text }

  function fail(error) {
    say('')
    if (error.status === 401) {
      forget()
      ui.alert.textContent = 'The service does not know this key. Type it again.'
      return
    }
    const id = error.requestID ? ` (request ${error.requestID})` : ''
    ui.alert.textContent = error.code === 'forbidden'
      ? 'This key may not do that: it needs one of the role “support”.' : `${error.message}${id}`
  }

  /// Runs what a button or a form asks for: once at a time, with the outcome said aloud.
  async function run(control, doing, action) {
    const mine = ++turn
    const buttons = control ? [...control.querySelectorAll('button')] : []
    for (const button of buttons) button.disabled = true
    ui.alert.textContent = ''
    say(doing)
    try {
      await action(() => mine === turn)
    } catch (error) {
      if (mine === turn) fail(error)
    } finally {
      for (const button of buttons) button.disabled = false
    }
  }

  function show(...children) {
    redraw = null
    ui.result.replaceChildren(...children)
    const heading = ui.result.querySelector('h2')
    if (heading) heading.focus()
  }

  // MARK: The key

  function forget() {
    turn += 1
    key = null
    ui.key.value = ''
    ui.query.value = ''
    ui.result.replaceChildren()
    redraw = null
    say('')
    ui.alert.textContent = ''
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
      ui.alert.textContent = 'A key is letters, digits and signs, without spaces.'
      return
    }
    key = typed
    ui.alert.textContent = ''
    ui.keyForm.hidden = true
    ui.keyState.hidden = false
    ui.searchForm.hidden = false
    ui.query.focus()
  })
  ui.forget.addEventListener('click', forget)
  addEventListener('pagehide', forget)

  // MARK: Looking up

  ui.searchForm.addEventListener('submit', (event) => {
    event.preventDefault()
    const id = ui.query.value.trim()
    if (!id) return
    const by = new FormData(ui.searchForm).get('by')
    if (by === 'transaction') lookUpTransaction(id)
    else lookUpUser(id)
  })

  const userPath = (id, rest) => `v1/profiles/${encodeURIComponent(id)}/${rest}`
  const transactionPath = (id, rest = '') => `v1/transactions/${encodeURIComponent(id)}${rest}`

  function lookUpUser(id, outcome) {
    return run(ui.searchForm, 'Looking…', async (isCurrent) => {
      const history = await ask('GET', userPath(id, 'history'))
      if (!isCurrent()) return
      showUser(history)
      say(outcome || `${id}: the tier is ${history.now.tier}, ${words(history.now.status)}.`)
    })
  }

  function lookUpTransaction(id, outcome) {
    return run(ui.searchForm, 'Looking…', async (isCurrent) => {
      const found = await ask('GET', transactionPath(id))
      if (!isCurrent()) return
      show(...found.purchases.map((purchase) => purchaseCard(purchase)))
      say(outcome || `Found: the purchase belongs to ${found.purchases.map((one) => one.user_id).join(' and ')}.`)
    })
  }

  // MARK: A state

  const words = (text) => String(text).replaceAll('_', ' ')

  function kind(state) {
    if (state.status === 'grace_period') return 'warn'
    if (state.status === 'expired') return 'bad'
    return state.status === 'active' && state.original_transaction_id ? 'good' : ''
  }

  function stateParts(state) {
    const rows = [
      ['Reason', words(state.reason)],
      ['Paid until', state.expires_at && time(state.expires_at)],
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
      el('p', {class: 'why'}, state.explanation),
      el('dl', null, rows.map(([name, value]) => [el('dt', null, name), el('dd', null, value)])),
    ]
  }

  // MARK: A user

  function showUser(history) {
    const user = history.user_id
    const entries = [...history.entries]
    let next = history.next
    const list = el('ol', {class: 'history'})
    const picture = el('div', {class: 'picture'})
    const older = el('button', {type: 'button', class: 'quiet', on: {click: more}}, 'Older entries')

    function refresh() {
      list.replaceChildren(...entries.map(entryItem))
      older.hidden = !next
      draw(picture, history, entries)
    }

    function more() {
      run(older.parentElement, 'Reading older entries…', async (isCurrent) => {
        const page = await ask('GET', next)
        if (!isCurrent()) return
        entries.push(...page.entries)
        next = page.next
        refresh()
        say(`${entries.length} entries are shown${next ? '.' : ', which are all.'}`)
      })
    }

    const ids = [...new Set(history.periods.map((period) => period.original_transaction_id))]
    show(
      el('section', {class: 'card', 'aria-labelledby': 'user-title'},
        el('h2', {id: 'user-title', tabindex: -1}, 'User ', bdi(user)),
        ...stateParts(history.now),
        ids.length === 0 ? null : el('ul', {class: 'purchases', 'aria-label': 'Purchases'}, ids.map((id) =>
          el('li', null, 'Purchase ', bdi(id), el('button', {
            type: 'button', class: 'quiet small', 'aria-label': `Show or move the purchase ${id}`,
            on: {click: () => lookUpTransaction(id)},
          }, 'Show or move'))))),
      el('section', {class: 'card', 'aria-labelledby': 'picture-title'},
        el('h2', {id: 'picture-title'}, 'Timeline'), picture),
      revalidationForm(user),
      el('section', {class: 'card', 'aria-labelledby': 'history-title'},
        el('h2', {id: 'history-title'}, 'History'),
        entries.length === 0 ? el('p', {class: 'soft'}, 'Nothing has happened yet.') : list,
        el('div', null, older)))
    refresh()
    redraw = () => draw(picture, history, entries)
  }

  const kinds = {verdict: 'Verdict', ownership_change: 'Owner', revalidation: 'Apple asked anew'}

  function entryItem(entry) {
    const said = entry.note === null || entry.note === undefined ? null : el('p', {class: 'said'},
      el('small', null, `Note of ${entry.asked_by}`), el('bdi', null, entry.note))
    const verdict = entry.kind === 'verdict' && el('span', {class: `pill ${kind(entry)}`},
      `${entry.tier}, ${words(entry.status)}`)
    const known = [
      ['Reason', entry.reason && words(entry.reason)],
      ['Paid until', entry.expires_at && date(entry.expires_at)],
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
    return el('li', null,
      el('p', {class: 'when'}, el('strong', null, kinds[entry.kind] || words(entry.kind)), verdict || null,
        time(entry.recorded_at)),
      el('p', null, entry.explanation), said,
      el('details', null, el('summary', null, 'Details'),
        el('dl', null, known.map(([name, value]) => [el('dt', null, name), el('dd', null, bdi(String(value)))]))))
  }

  function noteField(id, label) {
    return el('div', {class: 'field'},
      el('label', {for: id}, label),
      el('textarea', {id, maxlength: 1000, required: true, rows: 3}))
  }

  function revalidationForm(user) {
    const form = el('form', {class: 'card', autocomplete: 'off', 'aria-labelledby': 'ask-title'},
      el('h2', {id: 'ask-title'}, 'Ask Apple again'),
      el('p', {class: 'soft'}, 'About everything this user owns. The note is kept in the history.'),
      noteField('ask-note', 'Note: why do you ask?'),
      el('button', {type: 'submit'}, 'Ask Apple again'))
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      const note = form.querySelector('textarea').value.trim()
      if (!note) { ui.alert.textContent = 'Say in the note why you ask.'; return }
      run(form, 'Asking Apple…', async (isCurrent) => {
        const answer = await ask('POST', userPath(user, 'revalidation'), {note})
        if (!isCurrent()) return
        await lookUpUser(user, answer.stale
          ? `Apple could not be asked about everything. The last proven state stands: ${answer.tier}.`
          : `Asked. The tier is ${answer.tier}, ${words(answer.status)}.`)
      })
    })
    return form
  }

  // MARK: A purchase

  function purchaseCard(purchase) {
    const id = purchase.original_transaction_id
    const name = `${id}-${purchase.environment}`
    const form = el('form', {autocomplete: 'off', 'aria-labelledby': `move-${name}`},
      el('h3', {id: `move-${name}`}, 'Move it to another user'),
      el('p', {class: 'soft'}, 'Both users are judged anew at once, and the note is kept in the history of both.'),
      el('div', {class: 'field'},
        el('label', {for: `to-${name}`}, 'User ID of the new owner'),
        el('input', {id: `to-${name}`, type: 'text', maxlength: 128, required: true, spellcheck: 'false',
          autocapitalize: 'none', autocomplete: 'off'})),
      noteField(`why-${name}`, 'Note: why does it move?'),
      el('button', {type: 'submit', class: 'danger'}, 'Move the purchase…'))
    form.addEventListener('submit', async (event) => {
      event.preventDefault()
      const to = form.querySelector('input').value.trim()
      const note = form.querySelector('textarea').value.trim()
      if (!to || !note) { ui.alert.textContent = 'Name the new owner, and say in the note why.'; return }
      if (!await confirmed(`The purchase ${id} moves from ${purchase.user_id} to ${to}. ` +
        `${purchase.user_id} loses what it gives at once.`)) return
      run(form, 'Moving…', async (isCurrent) => {
        const moved = await ask('POST', transactionPath(id, '/transfer'), {to, note, environment: purchase.environment})
        if (!isCurrent()) return
        await lookUpTransaction(id, `Moved. The purchase belongs to ${moved.user_id} now.`)
      })
    })
    return el('section', {class: 'card', 'aria-labelledby': `purchase-${name}`},
      el('h2', {id: `purchase-${name}`, tabindex: -1}, 'Purchase ', bdi(id)),
      el('p', null, 'Belongs to ', bdi(purchase.user_id),
        purchase.owned_since ? [' since ', time(purchase.owned_since)] : null, '. ',
        el('button', {type: 'button', class: 'quiet small', 'aria-label': `Show the user ${purchase.user_id}`,
          on: {click: () => lookUpUser(purchase.user_id)}}, 'Show the user')),
      el('h3', null, 'What it gives by itself'),
      ...stateParts(purchase.state),
      el('h3', null, 'Owners'),
      el('ol', {class: 'history'}, purchase.ownership_changes.map((change) => el('li', null,
        el('p', {class: 'when'}, el('strong', null, change.from_user_id
          ? ['from ', bdi(change.from_user_id), ' to ', bdi(change.to_user_id)]
          : ['first presented by ', bdi(change.to_user_id)]), time(change.recorded_at)),
        change.note === null ? null : el('p', {class: 'said'},
          el('small', null, `Note of ${change.asked_by}`), el('bdi', null, change.note))))),
      form)
  }

  function confirmed(text) {
    ui.confirmText.textContent = text
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
      // What does no harm is what Enter does.
      ui.confirmNo.focus()
    })
  }

  // MARK: The picture

  const at = (text) => Date.parse(text)

  /// How a verdict is drawn.
  function look(verdict) {
    if (verdict.reason === 'billing_grace') return 'grace'
    if (verdict.reason === 'billing_retry') return 'retry'
    if (!verdict.original_transaction_id || verdict.status === 'expired') return 'none'
    return verdict.status === 'cancelled' ? 'cancelled' : 'active'
  }

  const looks = {
    active: 'access', cancelled: 'access, renewal off', grace: 'grace period', retry: 'billing retry', none: 'no access',
    held: 'ended, not confirmed by Apple',
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
      if (held) parts.push({from: Math.max(end, verdict.from), until, state: 'held', words: looks.held})
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
      lane('What people and owners did')
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
        svg('desc', {id: 'drawing-text'}, `${summary.join('; ')}. The history below tells the same in words.`),
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
    if (used.has('note')) items.push([swatch(svg('circle', {class: 'm-note', cx: 11, cy: 6, r: 5})), 'Apple asked anew'])
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
