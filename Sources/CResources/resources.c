// #embed is C23's, and clang takes it in C17. It costs the compiler nothing: as array literals of Swift the same files took
// more than a minute.

#include "CResources.h"

#include <string.h>

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char openapi_yaml[] = {
#embed "../CountersignServer/Routes/openapi.yaml"
};
static const unsigned char problems_md[] = {
#embed "../../docs/reference/problems.md"
};
static const unsigned char page_css[] = {
#embed "../CountersignServer/Console/Page/page.css"
};
static const unsigned char page_html[] = {
#embed "../CountersignServer/Console/Page/page.html"
};
static const unsigned char brake_js[] = {
#embed "../CountersignServer/Console/Page/brake.js"
};
static const unsigned char catalog_js[] = {
#embed "../CountersignServer/Console/Page/catalog.js"
};
static const unsigned char chart_js[] = {
#embed "../CountersignServer/Console/Page/chart.js"
};
static const unsigned char customers_js[] = {
#embed "../CountersignServer/Console/Page/customers.js"
};
static const unsigned char elements_js[] = {
#embed "../CountersignServer/Console/Page/elements.js"
};
static const unsigned char experiments_js[] = {
#embed "../CountersignServer/Console/Page/experiments.js"
};
static const unsigned char extensions_js[] = {
#embed "../CountersignServer/Console/Page/extensions.js"
};
static const unsigned char figures_js[] = {
#embed "../CountersignServer/Console/Page/figures.js"
};
static const unsigned char forms_js[] = {
#embed "../CountersignServer/Console/Page/forms.js"
};
static const unsigned char grants_js[] = {
#embed "../CountersignServer/Console/Page/grants.js"
};
static const unsigned char health_js[] = {
#embed "../CountersignServer/Console/Page/health.js"
};
static const unsigned char notifications_js[] = {
#embed "../CountersignServer/Console/Page/notifications.js"
};
static const unsigned char numbers_js[] = {
#embed "../CountersignServer/Console/Page/numbers.js"
};
static const unsigned char page_js[] = {
#embed "../CountersignServer/Console/Page/page.js"
};
static const unsigned char privacy_js[] = {
#embed "../CountersignServer/Console/Page/privacy.js"
};
static const unsigned char purchases_js[] = {
#embed "../CountersignServer/Console/Page/purchases.js"
};
static const unsigned char recent_js[] = {
#embed "../CountersignServer/Console/Page/recent.js"
};
static const unsigned char refunds_js[] = {
#embed "../CountersignServer/Console/Page/refunds.js"
};
static const unsigned char runs_js[] = {
#embed "../CountersignServer/Console/Page/runs.js"
};
static const unsigned char service_js[] = {
#embed "../CountersignServer/Console/Page/service.js"
};
static const unsigned char tables_js[] = {
#embed "../CountersignServer/Console/Page/tables.js"
};
static const unsigned char timeline_js[] = {
#embed "../CountersignServer/Console/Page/timeline.js"
};
static const unsigned char user_js[] = {
#embed "../CountersignServer/Console/Page/user.js"
};
static const unsigned char verdict_js[] = {
#embed "../CountersignServer/Console/Page/verdict.js"
};
static const unsigned char webhooks_js[] = {
#embed "../CountersignServer/Console/Page/webhooks.js"
};
static const unsigned char welcome_js[] = {
#embed "../CountersignServer/Console/Page/welcome.js"
};

#define RESOURCE(name, bytes) {name, bytes, sizeof(bytes)}

static const struct resource resources[] = {
    RESOURCE("openapi.yaml", openapi_yaml),
    RESOURCE("problems.md", problems_md),
    RESOURCE("page.css", page_css),
    RESOURCE("page.html", page_html),
    RESOURCE("brake.js", brake_js),
    RESOURCE("catalog.js", catalog_js),
    RESOURCE("chart.js", chart_js),
    RESOURCE("customers.js", customers_js),
    RESOURCE("elements.js", elements_js),
    RESOURCE("experiments.js", experiments_js),
    RESOURCE("extensions.js", extensions_js),
    RESOURCE("figures.js", figures_js),
    RESOURCE("forms.js", forms_js),
    RESOURCE("grants.js", grants_js),
    RESOURCE("health.js", health_js),
    RESOURCE("notifications.js", notifications_js),
    RESOURCE("numbers.js", numbers_js),
    RESOURCE("page.js", page_js),
    RESOURCE("privacy.js", privacy_js),
    RESOURCE("purchases.js", purchases_js),
    RESOURCE("recent.js", recent_js),
    RESOURCE("refunds.js", refunds_js),
    RESOURCE("runs.js", runs_js),
    RESOURCE("service.js", service_js),
    RESOURCE("tables.js", tables_js),
    RESOURCE("timeline.js", timeline_js),
    RESOURCE("user.js", user_js),
    RESOURCE("verdict.js", verdict_js),
    RESOURCE("webhooks.js", webhooks_js),
    RESOURCE("welcome.js", welcome_js),
};

struct resource resource_named(const char *name) {
  for (size_t index = 0; index < sizeof(resources) / sizeof(resources[0]); index++) {
    if (strcmp(resources[index].name, name) == 0) { return resources[index]; }
  }
  return (struct resource){name, NULL, 0};
}
